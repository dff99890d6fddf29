//! Which kind of progress suits standard error: a block on a terminal, lines elsewhere.

use std::io::{IsTerminal, Stderr, stderr};

use tollhouse_load::live::{Live, Mode, Size};
use tollhouse_load::report::paint::Paint;

/// A terminal that does not tell its size is taken for one of this.
const SIZE_DEFAULT: Size = Size { columns: 80, rows: 24 };

/// What shows a session on standard error.
pub type Watcher = Live<Stderr>;

/// A watcher that suits standard error; nothing is shown to those who want it quiet.
pub fn watcher(is_quiet: bool) -> Watcher {
    let variable = |name: &str| std::env::var(name).ok();
    let (no_color, term) = (variable("NO_COLOR"), variable("TERM"));
    let mode = if is_quiet {
        Mode::Quiet
    } else if stderr().is_terminal() && term.as_deref() != Some("dumb") {
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
