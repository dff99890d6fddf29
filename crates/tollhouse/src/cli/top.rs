//! `tollhouse top`: a running gateway on a full screen, refreshed every second: findings first, then
//! tables of routes, nodes and plugins, which keys sort. Without a terminal, and with `--once`, the
//! same as text.

mod frame;
mod screen;
mod table;
mod view;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use self::frame::Frame;
use self::screen::{Key, Screen};
use self::view::View;
use super::console_client::ConsoleClient;
use super::gateway::Gateway;
use super::{problems, stdout};

/// Interval between refreshes; the gateway samples its traffic every second.
const INTERVAL: Duration = Duration::from_secs(1);

/// Interval between two looks at the keyboard.
const KEY_INTERVAL: Duration = Duration::from_millis(50);

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct TopArguments {
    #[command(flatten)]
    gateway: Gateway,
    /// Print the overview once and exit.
    #[arg(long)]
    once: bool,
    /// Print the overview, the samples of the last ten seconds, and the figures of routes, nodes and
    /// plugins as one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Shows the gateway until `q` or Ctrl-C.
///
/// # Errors
/// If the gateway cannot be reached, or refuses.
pub fn run(arguments: &TopArguments) -> anyhow::Result<ExitCode> {
    let mut client = match ConsoleClient::open(&arguments.gateway)? {
        Ok(client) => client,
        Err(code) => return Ok(code),
    };
    let mut frame = Frame::fetch(&mut client, None)?;
    let is_screen = io::stdout().is_terminal() && io::stdin().is_terminal();
    if !arguments.once && !arguments.json && is_screen {
        return full_screen(&mut client, frame);
    }
    loop {
        let text = match arguments.json {
            true => format!("{}\n", frame.to_json()),
            false => view::text(&frame),
        };
        stdout::print(&text)?;
        if arguments.once {
            return Ok(ExitCode::SUCCESS);
        }
        client.wait(INTERVAL);
        frame = Frame::fetch(&mut client, Some(&frame))?;
    }
}

fn full_screen(client: &mut ConsoleClient, mut frame: Frame) -> anyhow::Result<ExitCode> {
    let paint = problems::paint(&io::stdout());
    let screen = Screen::open()?;
    let mut view = View::default();
    loop {
        screen.draw(&view.lines(&frame, screen.size(), paint))?;
        let mut left = INTERVAL;
        while !left.is_zero() {
            match screen.key() {
                Some(Key::Quit) => return Ok(ExitCode::SUCCESS),
                Some(key) => {
                    view.press(key);
                    screen.draw(&view.lines(&frame, screen.size(), paint))?;
                }
                None => {
                    client.wait(KEY_INTERVAL);
                    left = left.saturating_sub(KEY_INTERVAL);
                }
            }
        }
        frame = Frame::fetch(client, Some(&frame))?;
    }
}
