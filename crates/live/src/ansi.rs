//! A grid of cells as escape sequences of ECMA-48, which every terminal of today reads.

use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};
use std::io::{self, Write};

/// Writes cells to a terminal. The caller sets the size, which only it can read.
#[derive(Debug)]
pub struct AnsiBackend<W: Write> {
    terminal: W,
    size: Size,
}

impl<W: Write> AnsiBackend<W> {
    /// A terminal of so many columns and rows.
    pub fn new(terminal: W, columns: u16, rows: u16) -> Self {
        Self { terminal, size: Size::new(columns, rows) }
    }

    /// The terminal has been resized.
    pub fn set_size(&mut self, columns: u16, rows: u16) {
        self.size = Size::new(columns, rows);
    }

    fn escape(&mut self, sequence: &str) -> io::Result<()> {
        write!(self.terminal, "\x1b[{sequence}")
    }
}

impl<W: Write> Backend for AnsiBackend<W> {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let (mut text, mut next, mut style) = (String::new(), None, None);
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                text += &format!("\x1b[{};{}H", y + 1, x + 1);
            }
            let own = (cell.fg, cell.modifier);
            if style != Some(own) {
                text += &style_sequence(cell.fg, cell.modifier);
                style = Some(own);
            }
            text += cell.symbol();
            next = Some((x + 1, y));
        }
        self.terminal.write_all(text.as_bytes())?;
        self.escape("0m")
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.escape("?25l")
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.escape("?25h")
    }

    /// The view has no cursor, so its position does not matter.
    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        self.escape(&format!("{};{}H", y + 1, x + 1))
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.escape(match region {
            ClearType::All => "2J",
            ClearType::AfterCursor => "0J",
            ClearType::BeforeCursor => "1J",
            ClearType::CurrentLine => "2K",
            ClearType::UntilNewLine => "0K",
        })
    }

    fn size(&self) -> io::Result<Size> {
        Ok(self.size)
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.terminal.flush()
    }
}

/// The colours and modifiers that the view uses.
fn style_sequence(colour: Color, modifier: Modifier) -> String {
    let modifiers = [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2"), (Modifier::REVERSED, ";7")];
    let colour = match colour {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        Color::Blue => ";34",
        Color::Cyan => ";36",
        _ => "",
    };
    let used = modifiers.into_iter().filter(|(flag, _)| modifier.contains(*flag)).map(|(_, code)| code);
    format!("\x1b[0{}{colour}m", used.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::style::Style;
    use ratatui::text::{Line, Span};

    #[test]
    fn cells_beside_each_other_share_one_position_and_one_style() {
        let mut terminal = Terminal::new(AnsiBackend::new(Vec::new(), 6, 2)).unwrap();
        let red = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
        terminal
            .draw(|frame| {
                frame.render_widget(Line::from(vec![Span::raw("ab"), Span::styled("c", red)]), frame.area())
            })
            .unwrap();
        let text = String::from_utf8(terminal.backend().terminal.clone()).unwrap();
        assert!(text.contains("\x1b[1;1H\x1b[0mab\x1b[0;1;31mc\x1b[0m"), "{text:?}");
    }

    #[test]
    fn a_new_size_is_drawn_whole() {
        let mut terminal = Terminal::new(AnsiBackend::new(Vec::new(), 6, 2)).unwrap();
        terminal.draw(|frame| assert_eq!(frame.area().width, 6)).unwrap();
        terminal.backend_mut().set_size(9, 3);
        terminal.draw(|frame| assert_eq!((frame.area().width, frame.area().height), (9, 3))).unwrap();
    }
}
