//! The state of the view: readings, messages, and what the keys have changed.

use crate::figures::LiveFigures;
use crate::history::History;
use crate::keys::KeyPress;
use crate::table_view::TableView;
use metrics::MetricSet;
use std::collections::VecDeque;
use std::time::Duration;

/// Lines of messages that are kept.
const MESSAGES_MAX: usize = 50;
/// Characters of a typed text at most.
const TYPED_MAX: usize = 40;

/// What the first line begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScreenHead {
    /// The command.
    pub command: String,
    /// Its device; empty if it has none of its own.
    pub device: String,
    /// The network namespace of the device; empty for that of the process.
    pub netns: String,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunState {
    /// In one word.
    pub word: &'static str,
    /// True if the user can pause what is sent and change its rate.
    pub has_rate: bool,
}

/// What the user wants of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScreenAction {
    /// Pause, or go on after a pause.
    TogglePause,
    /// Send faster or slower by this many percent.
    ChangeRate(i32),
    /// Send at the rate that this text names.
    SetRate(String),
    /// End the run.
    Stop,
}

/// What a line of text is typed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputPrompt {
    Rate,
    Filter,
}

/// The screen of one command.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    pub(crate) head: ScreenHead,
    pub(crate) has_colours: bool,
    pub(crate) state: RunState,
    pub(crate) elapsed: Duration,
    pub(crate) history: History,
    pub(crate) messages: VecDeque<String>,
    pub(crate) table: TableView,
    pub(crate) has_histogram: bool,
    pub(crate) has_help: bool,
    pub(crate) typed: Option<(InputPrompt, String)>,
    /// The screen as it was frozen.
    frozen: Option<Box<Screen>>,
}

impl Screen {
    /// A screen without a reading.
    pub fn new(head: ScreenHead, has_colours: bool) -> Self {
        Self { head, has_colours, ..Self::default() }
    }

    /// Adds a reading at `elapsed` after the start.
    pub fn add(&mut self, elapsed: Duration, state: RunState, set: &MetricSet) {
        (self.elapsed, self.state) = (elapsed, state);
        self.history.add(elapsed, LiveFigures::of(set));
    }

    /// Shows a line below the tables, until others follow.
    pub fn message(&mut self, line: &str) {
        let is_shown = |character: &char| !character.is_control();
        self.messages.push_back(line.chars().filter(is_shown).collect());
        self.messages.drain(..self.messages.len().saturating_sub(MESSAGES_MAX));
    }

    /// Takes a key. Returns what the run should do.
    pub fn key(&mut self, key: KeyPress) -> Option<ScreenAction> {
        if key == KeyPress::Interrupt {
            return Some(ScreenAction::Stop);
        }
        if let Some((prompt, text)) = self.typed.take() {
            return self.typing(prompt, text, key);
        }
        if self.has_help {
            self.has_help = false;
            return None;
        }
        match key {
            KeyPress::Char('p') => return Some(ScreenAction::TogglePause),
            KeyPress::Char('s' | 'q') => return Some(ScreenAction::Stop),
            KeyPress::Char('+' | '=') => return Some(ScreenAction::ChangeRate(10)),
            KeyPress::Char('-' | '_') => return Some(ScreenAction::ChangeRate(-10)),
            KeyPress::Char('r') => self.typed = Some((InputPrompt::Rate, String::new())),
            KeyPress::Char('/') => self.typed = Some((InputPrompt::Filter, String::new())),
            KeyPress::Char('?') => self.has_help = true,
            KeyPress::Char('h') => self.has_histogram = !self.has_histogram,
            KeyPress::Char('c' | '0') => self.clear(),
            KeyPress::Char('o') => self.table.sort += 1,
            KeyPress::Char(' ') => self.freeze(),
            KeyPress::Tab => {
                let tables = self.shown().history.now().tables.len().max(1);
                self.table = TableView { index: (self.table.index + 1) % tables, ..TableView::default() };
            }
            KeyPress::Up => self.table.skipped = self.table.skipped.saturating_sub(1),
            KeyPress::Down => self.table.skipped += 1,
            _ => {}
        }
        None
    }

    fn typing(&mut self, prompt: InputPrompt, mut text: String, key: KeyPress) -> Option<ScreenAction> {
        match key {
            KeyPress::Escape => return None,
            KeyPress::Enter if prompt == InputPrompt::Filter => {
                (self.table.filter, self.table.skipped) = (text, 0);
                return None;
            }
            KeyPress::Enter => return (!text.is_empty()).then_some(ScreenAction::SetRate(text)),
            KeyPress::Backspace => drop(text.pop()),
            KeyPress::Char(character) if text.chars().count() < TYPED_MAX => text.push(character),
            _ => {}
        }
        self.typed = Some((prompt, text));
        None
    }

    fn clear(&mut self) {
        self.history.clear();
        self.frozen.iter_mut().for_each(|frozen| frozen.history.clear());
    }

    fn freeze(&mut self) {
        self.frozen = match self.frozen.take() {
            Some(_) => None,
            None => Some(Box::new(self.clone())),
        };
    }

    /// The readings to show: these, or those of the frozen screen.
    pub(crate) fn shown(&self) -> &Self {
        self.frozen.as_deref().unwrap_or(self)
    }

    /// True while new readings are not shown.
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::keys_of;

    fn press(screen: &mut Screen, keys: &str) -> Vec<ScreenAction> {
        keys_of(keys.as_bytes()).into_iter().filter_map(|key| screen.key(key)).collect()
    }

    #[test]
    fn keys_are_actions() {
        let mut screen = Screen::default();
        assert_eq!(
            press(&mut screen, "p+-sq\x03"),
            [
                ScreenAction::TogglePause,
                ScreenAction::ChangeRate(10),
                ScreenAction::ChangeRate(-10),
                ScreenAction::Stop,
                ScreenAction::Stop,
                ScreenAction::Stop
            ]
        );
    }

    #[test]
    fn a_rate_is_typed() {
        let mut screen = Screen::default();
        assert_eq!(press(&mut screen, "r1.5Mx\x7f\r"), [ScreenAction::SetRate("1.5M".to_owned())]);
        assert_eq!(press(&mut screen, "rs"), [], "s is typed");
        assert_eq!(press(&mut screen, "\x1b"), []);
        assert_eq!(press(&mut screen, "s"), [ScreenAction::Stop], "the typing has ended");
        assert_eq!(press(&mut screen, "r\r"), [], "nothing was typed");
        assert_eq!(press(&mut screen, "r1\x03"), [ScreenAction::Stop], "Ctrl-C is never typed");
    }

    #[test]
    fn the_first_key_ends_the_help_only() {
        let mut screen = Screen::default();
        assert_eq!(press(&mut screen, "?"), []);
        assert!(screen.has_help);
        assert_eq!(press(&mut screen, "s"), []);
        assert!(!screen.has_help);
    }

    #[test]
    fn tables_are_sorted_filtered_and_changed() {
        let mut screen = Screen::default();
        press(&mut screen, "oo/1");
        press(&mut screen, "2\r\x1b[B");
        let TableView { sort, filter, skipped, .. } = &screen.table;
        assert_eq!((*sort, filter.as_str(), *skipped), (2, "12", 1));
        press(&mut screen, "\t");
        assert_eq!((screen.table.sort, screen.table.filter.as_str()), (0, ""));
    }

    #[test]
    fn messages_have_no_control_characters() {
        let mut screen = Screen::default();
        screen.message("\x1b[31mred\x1b[0m\ttext");
        assert_eq!(screen.messages, ["[31mred[0mtext"]);
        (0..100).for_each(|number| screen.message(&number.to_string()));
        assert_eq!((screen.messages.len(), screen.messages[0].as_str()), (50, "50"));
    }
}
