//! The terminal under the line that moves.
//!
//! Owns where the cursor rests between two drawings: at the beginning of that line. At its end, whatever the terminal itself puts
//! there (`^C` is echoed) would begin another line, and the one that moves could not be found to be taken away.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::TermLike;
use rustix::termios::tcgetwinsize;

/// What a terminal that does not say its size is taken to have.
const SIZE: (u16, u16) = (80, 24);

/// Standard error, written to in one piece for each drawing.
#[derive(Debug, Default)]
pub struct Screen {
    drawing: Mutex<String>,
}

impl Screen {
    fn add(&self, text: &str) -> io::Result<()> {
        self.drawing.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        Ok(())
    }

    fn move_by(&self, count: usize, direction: char) -> io::Result<()> {
        if count == 0 { Ok(()) } else { self.add(&format!("\u{1b}[{count}{direction}")) }
    }

    fn size() -> (u16, u16) {
        let said = tcgetwinsize(io::stderr()).ok().map(|size| (size.ws_col, size.ws_row));
        said.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or(SIZE)
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        Screen::size().0
    }

    fn height(&self) -> u16 {
        Screen::size().1
    }

    fn move_cursor_up(&self, count: usize) -> io::Result<()> {
        self.move_by(count, 'A')
    }

    fn move_cursor_down(&self, count: usize) -> io::Result<()> {
        self.move_by(count, 'B')
    }

    fn move_cursor_right(&self, count: usize) -> io::Result<()> {
        self.move_by(count, 'C')
    }

    fn move_cursor_left(&self, count: usize) -> io::Result<()> {
        self.move_by(count, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.add(text)?;
        self.add("\n")
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.add(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.add("\r\u{1b}[2K")
    }

    fn flush(&self) -> io::Result<()> {
        let mut drawing = std::mem::take(&mut *self.drawing.lock().unwrap_or_else(PoisonError::into_inner));
        drawing.push('\r');
        let mut terminal = io::stderr().lock();
        terminal.write_all(drawing.as_bytes())?;
        terminal.flush()
    }
}
