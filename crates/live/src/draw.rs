//! Draws a screen: a head, graphs, a table or a histogram, messages, and the keys.

use crate::graphs::{Graph, GraphKind, bound, clock, graphs, histogram};
use crate::help::{KEY_LINE, KEYS, RATE_KEYS};
use crate::screen::{InputPrompt, Screen};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, RenderDirection, Sparkline};
use report::human::{human_count, human_pps};

/// Below this size nothing useful fits.
const SIZE_MIN: (u16, u16) = (40, 10);
/// From this width on two graphs stand side by side.
const WIDE: u16 = 120;
/// Rows of a graph at most, with its title.
const GRAPH_ROWS_MAX: u16 = 9;
/// Columns of the bars of a histogram at most.
const BAR_COLUMNS: usize = 40;

fn draw(screen: &Screen, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < SIZE_MIN.0 || area.height < SIZE_MIN.1 {
        frame.render_widget(Paragraph::new("the terminal is too small: 80x24 is enough"), area);
        return;
    }
    let shown = screen.shown();
    let graphs = graphs(&shown.history);
    let columns = if area.width >= WIDE { 2 } else { 1 };
    let graph_lines = graphs.len().div_ceil(columns) as u16;
    let message_rows = (area.height / 12).clamp(1, 5);
    let graph_rows = ((area.height - 2 - message_rows) * 3 / 5 / graph_lines.max(1)).clamp(2, GRAPH_ROWS_MAX);
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(graph_rows * graph_lines),
        Constraint::Fill(1),
        Constraint::Length(message_rows),
        Constraint::Length(1),
    ]);
    let [head, graph_area, tables, messages, keys] = rows.areas(area);
    frame.render_widget(head_line(screen), head);
    for (index, graph) in graphs.iter().enumerate() {
        let width = graph_area.width / columns as u16;
        let (row, column) = ((index / columns) as u16, (index % columns) as u16);
        // One column apart.
        let gap = u16::from(column == 0 && columns > 1);
        let corner = (graph_area.x + column * width, graph_area.y + row * graph_rows);
        let place = Rect::new(corner.0, corner.1, width - gap, graph_rows);
        draw_graph(screen, graph, place, frame);
    }
    if screen.has_histogram {
        draw_histogram(screen, tables, frame)
    } else {
        draw_table(screen, tables, frame)
    }
    draw_messages(screen, messages, frame);
    frame.render_widget(last_line(screen), keys);
    if screen.has_help {
        draw_help(screen, area, frame);
    }
}

impl Screen {
    /// Draws the screen.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        draw(self, frame);
    }

    /// The numbers of the screen as one line, for an output that is not a terminal: the titles of
    /// all graphs.
    pub fn line(&self) -> String {
        let titles = graphs(&self.history).into_iter().map(|graph| graph.title);
        let time = clock(self.elapsed);
        format!("{time} {}: {}", self.state.word, titles.collect::<Vec<_>>().join("; "))
    }

    /// `colour`, unless the screen has none.
    fn painted(&self, colour: Color) -> Style {
        if self.has_colours { Style::new().fg(colour) } else { Style::new() }
    }

    fn state_colour(&self) -> Color {
        match self.shown().state.word {
            "running" => Color::Green,
            "paused" => Color::Yellow,
            _ => Color::Cyan,
        }
    }

    fn place(&self) -> String {
        match (self.head.device.as_str(), self.head.netns.as_str()) {
            ("", _) => String::new(),
            (device, "") => format!("  {device}"),
            (device, netns) => format!("  {device} in {netns}"),
        }
    }
}

/// The place comes last, because the name of a namespace may be long.
fn head_line(screen: &Screen) -> Line<'_> {
    let shown = screen.shown();
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let target = shown.history.now().target_pps.map(|pps| format!("  {} requested", human_pps(pps)));
    let frozen = if screen.is_frozen() { "  (screen frozen, space goes on)" } else { "" };
    Line::from(vec![
        Span::styled(screen.head.command.clone(), bold),
        Span::raw("  "),
        Span::styled(shown.state.word, screen.painted(screen.state_colour()).add_modifier(Modifier::BOLD)),
        Span::raw(format!("  {}", clock(shown.elapsed))),
        Span::raw(target.unwrap_or_default()),
        Span::styled(frozen, screen.painted(Color::Yellow)),
        Span::raw(screen.place()),
    ])
}

fn titled(screen: &Screen, title: String, colour: Color) -> Block<'_> {
    let style = screen.painted(colour).add_modifier(Modifier::BOLD);
    Block::new().borders(Borders::TOP).title(Line::styled(format!(" {title} "), style))
}

fn draw_graph(screen: &Screen, graph: &Graph, area: Rect, frame: &mut Frame<'_>) {
    let (colour, history) = (colour(graph.kind), &screen.shown().history);
    let points = history.points().map(|point| graph.kind.height(point));
    let scale = graph.kind.scale(history.points().take(usize::from(area.width)));
    let (height_max, top) = scale.last().cloned().expect("a scale has a top");
    let mut block = titled(screen, graph.title.clone(), colour);
    // The title with the counts is worth more than the scale.
    if graph.title.chars().count() + top.chars().count() + 10 <= usize::from(area.width) {
        block = block.title(Line::from(format!(" top {top} ")).right_aligned());
    }
    let sparkline = Sparkline::default()
        .block(block)
        .direction(RenderDirection::RightToLeft)
        .style(screen.painted(colour))
        .absent_value_symbol(" ")
        .data(points.take(usize::from(area.width)))
        .max(height_max);
    frame.render_widget(sparkline, area);
}

fn colour(kind: GraphKind) -> Color {
    match kind {
        GraphKind::Sent => Color::Green,
        GraphKind::Received => Color::Cyan,
        GraphKind::Lost => Color::Red,
        GraphKind::Latency | GraphKind::GapError | GraphKind::Ring => Color::Yellow,
    }
}

fn draw_table(screen: &Screen, area: Rect, frame: &mut Frame<'_>) {
    let history = &screen.shown().history;
    let table_count = history.now().tables.len();
    let index = screen.table.index.min(table_count.saturating_sub(1));
    let Some((table, rates)) = history.table(index) else {
        let block = titled(screen, "no frames yet".to_owned(), Color::Reset);
        frame.render_widget(block, area);
        return;
    };
    let block = titled(screen, screen.table.title(&table, table_count), Color::Reset);
    let lines = screen.table.lines(&table, &rates, area.height.saturating_sub(1).into(), area.width.into());
    let dim = Style::new().add_modifier(Modifier::DIM);
    let style = |index: usize| if index == 0 { dim } else { Style::new() };
    let lines = lines.into_iter().enumerate().map(|(index, line)| Line::styled(line, style(index)));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(block), area);
}

/// The histogram of the latency, else of the gap error.
fn draw_histogram(screen: &Screen, area: Rect, frame: &mut Frame<'_>) {
    let history = &screen.shown().history;
    let Some((name, octaves)) = histogram(history) else {
        let title = "no histogram: it needs a constant rate, or a receiver of frames with time stamps";
        frame.render_widget(titled(screen, title.to_owned(), Color::Reset), area);
        return;
    };
    let block = titled(screen, format!("{name} of {} frames", human_count(octaves.total())), Color::Yellow);
    let mut used = octaves.used();
    // The highest are the ones to worry about.
    used.drain(..used.len().saturating_sub(usize::from(area.height.saturating_sub(1))));
    let most = used.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let line = |(ns, count): &(u64, u64)| {
        let bar = "█".repeat((u128::from(*count) * BAR_COLUMNS as u128).div_ceil(u128::from(most)) as usize);
        let share = *count as f64 * 100.0 / octaves.total().max(1) as f64;
        Line::from(format!("{:>16} {:>15} {share:>6.2} % {bar}", bound(*ns), human_count(*count)))
    };
    let lines: Vec<Line<'_>> = used.iter().map(line).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_messages(screen: &Screen, area: Rect, frame: &mut Frame<'_>) {
    let skipped = screen.messages.len().saturating_sub(usize::from(area.height));
    let lines: Vec<Line<'_>> =
        screen.messages.iter().skip(skipped).map(|line| Line::raw(line.as_str())).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// The keys, or the text that is being typed.
fn last_line(screen: &Screen) -> Line<'_> {
    let reversed = Style::new().add_modifier(Modifier::REVERSED);
    match &screen.typed {
        None if screen.state.has_rate => Line::styled(format!("{RATE_KEYS}{KEY_LINE}"), reversed),
        None => Line::styled(KEY_LINE, reversed),
        Some((InputPrompt::Rate, text)) => Line::styled(
            format!("rate, such as 1.5M or 2Gbit (enter sets it, esc does not): {text}_"),
            reversed,
        ),
        Some((InputPrompt::Filter, text)) => {
            Line::styled(format!("show rows with (enter sets it, esc does not): {text}_"), reversed)
        }
    }
}

fn draw_help(screen: &Screen, area: Rect, frame: &mut Frame<'_>) {
    let (width, height) = (area.width.min(78), area.height.min(KEYS.len() as u16 + 2));
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    let bold = screen.painted(Color::Cyan).add_modifier(Modifier::BOLD);
    let line = |(key, meaning): &(&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!("{key:>8}  "), bold), Span::raw(*meaning)])
    };
    let lines: Vec<Line<'_>> = KEYS.iter().map(line).collect();
    let block = Block::new().borders(Borders::ALL).title(" Keys (any key ends the help) ");
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(block), place);
}
