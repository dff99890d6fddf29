//! Progress display for standard error: a block on a terminal, else lines.

use std::io::{IsTerminal, Stderr, stderr};

use tollhouse_load::live::{Live, Mode, Size};
use tollhouse_load::report::paint::Paint;

/// Assumed size of a terminal that does not report its size.
const SIZE_DEFAULT: Size = Size { columns: 80, rows: 24 };

/// Progress display of a measurement on standard error.
pub type Watcher = Live<Stderr>;

/// Creates a display that shows nothing.
pub fn quiet_watcher() -> Watcher {
    Live::new(Mode::Quiet, stderr(), size)
}

/// Creates the display for standard error: a block that is redrawn on a terminal, otherwise lines.
pub fn watcher() -> Watcher {
    let variable = |name: &str| std::env::var(name).ok();
    let (no_color, term) = (variable("NO_COLOR"), variable("TERM"));
    let mode = if stderr().is_terminal() && term.as_deref() != Some("dumb") {
        Mode::Block(Paint::for_stream(&stderr(), no_color.as_deref(), term.as_deref()))
    } else {
        Mode::Lines
    };
    Live::new(mode, stderr(), size)
}

fn size() -> Size {
    match rustix::termios::tcgetwinsize(stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            Size { columns: size.ws_col.into(), rows: size.ws_row.into() }
        }
        _ => SIZE_DEFAULT,
    }
}
