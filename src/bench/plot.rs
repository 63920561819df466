// SPDX-License-Identifier: GPL-3.0-or-later
//! Charts of lines with error bars, as SVG.

/// A line by its name and colour; a line without a name has none at its end.
pub struct Line {
    pub name: String,
    pub colour: &'static str,
    pub points: Vec<(f64, f64)>,
    /// Places with a bar, and the mean and standard deviation there.
    pub bars: Vec<(f64, Spread)>,
}

/// Mean and standard deviation of a sample.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spread {
    pub mean: f64,
    pub deviation: f64,
}

impl Spread {
    pub fn of(sample: &[f64]) -> Self {
        let count = sample.len() as f64;
        let mean = sample.iter().sum::<f64>() / count.max(1.0);
        let squares: f64 = sample.iter().map(|value| (value - mean).powi(2)).sum();
        Self { mean, deviation: (squares / (count - 1.0).max(1.0)).sqrt() }
    }

    /// Spread of the curves at a slot, from 1.
    pub fn after(curves: &[Vec<f64>], slot: usize) -> Self {
        let at = slot.saturating_sub(1);
        let values: Vec<f64> = curves.iter().filter_map(|curve| curve.get(at).copied()).collect();
        Self::of(&values)
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "{:.digits$} ± {:.digits$}", self.mean, self.deviation)
    }
}

/// A chart on a page. On a logarithmic axis of heights, values below the least are not drawn.
pub struct Panel<'a> {
    /// Left and upper end of the plot.
    pub at: (f64, f64),
    /// Width and height of the plot.
    pub size: (f64, f64),
    pub title: &'a str,
    /// Name of the axis across.
    pub across: &'a str,
    pub ticks: Vec<f64>,
    /// Whether the axes, across and up, are logarithmic.
    pub is_log: (bool, bool),
    /// Least height, which on a linear axis is also the lower end.
    pub least: f64,
    pub lines: Vec<Line>,
}

/// A page of a given size.
pub fn page((width, height): (f64, f64), content: &str) -> String {
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' \
         font-family='sans-serif' font-size='12'>\n<rect width='{width}' height='{height}' \
         fill='white'/>\n{content}</svg>\n"
    )
}

/// A text whose begin, end or middle (`start`, `end`, `middle`) is at the point.
pub fn text((x, y): (f64, f64), anchor: &str, colour: &str, words: &str) -> String {
    format!("<text x='{x:.1}' y='{y:.1}' text-anchor='{anchor}' fill='{colour}'>{words}</text>\n")
}

/// Lines across the plot at the values of the height axis.
pub fn grid((left, width): (f64, f64), y: impl Fn(f64) -> f64, values: &[f64]) -> String {
    let line = |value: &f64| {
        let at = y(*value);
        format!("<path d='M{left:.0} {at:.1}h{width:.0}' stroke='#dddddd'/>")
            + &text((left - 6.0, at + 4.0), "end", "black", &format!("{value}"))
    };
    values.iter().map(line).collect()
}

/// Round values from `least` to `most`, at equal distances or at powers of ten.
pub fn marks(least: f64, most: f64, is_log: bool) -> Vec<f64> {
    if is_log {
        let powers = (-6..9).map(|power| 10_f64.powi(power));
        return powers.filter(|value| (least..=most).contains(value)).collect();
    }
    let step = 10_f64.powf(((most - least) / 2.0).log10().floor());
    let step = if (most - least) / step > 8.0 { step * 2.0 } else { step };
    let first = (least / step).ceil();
    let values = (0..).map(|at| (first + f64::from(at)) * step);
    let rounded = |value: f64| (value * 1e6).round() / 1e6;
    values.take_while(|value| *value <= most).map(rounded).collect()
}

impl Panel<'_> {
    pub fn draw(&self) -> String {
        let ((left, top), (width, height)) = (self.at, self.size);
        let (across, up) = self.is_log;
        let scale = |is_log: bool, value: f64| if is_log { value.ln() } else { value };
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let ends =
            |line: &Line| line.bars.iter().map(|(_, s)| s.mean + s.deviation).fold(0.0, f64::max);
        let first = points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
        let last = points().map(|(x, _)| *x).fold(f64::NEG_INFINITY, f64::max);
        let most = points().map(|(_, y)| *y).chain(self.lines.iter().map(ends)).fold(0.0, f64::max);
        let (from, to) = (scale(across, first), scale(across, last));
        let (low, high) = (scale(up, self.least), scale(up, most));
        let x = |value: f64| left + width * (scale(across, value) - from) / (to - from);
        let y = |value: f64| {
            let value = scale(up, value.max(self.least));
            top + height * (1.0 - (value - low) / (high - low))
        };
        let mut out = text((left, top - 14.0), "start", "black", self.title);
        out += &grid((left, width), y, &marks(self.least, most, up));
        for tick in &self.ticks {
            let below = (x(*tick), top + height + 18.0);
            out += &text(below, "middle", "black", &format!("{tick}"));
        }
        let middle = (left + width / 2.0, top + height + 38.0);
        out += &text(middle, "middle", "black", self.across);
        for Line { colour, points, bars, .. } in &self.lines {
            let seen = points.iter().filter(|(_, value)| *value >= self.least);
            let seen: Vec<String> =
                seen.map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
            out += &format!(
                "<polyline fill='none' stroke='{colour}' stroke-width='1.5' points='{}'/>\n",
                seen.join(" ")
            );
            for (at, spread) in bars.iter().filter(|(_, s)| s.mean >= self.least) {
                let (x, upper) = (x(*at), y(spread.mean + spread.deviation));
                let lower = y(spread.mean - spread.deviation);
                out += &format!(
                    "<path d='M{:.1} {upper:.1}h6m-3 0V{lower:.1}m-3 0h6' stroke='{colour}' \
                     fill='none'/>\n",
                    x - 3.0
                );
            }
        }
        out + &self.names(y)
    }

    /// The names of the lines at their ends, moved apart so that none lies over another.
    fn names(&self, y: impl Fn(f64) -> f64) -> String {
        let end = |line: &Line| y(line.points.last().map_or(0.0, |(_, value)| *value));
        let mut named: Vec<&Line> =
            self.lines.iter().filter(|line| !line.name.is_empty()).collect();
        named.sort_by(|a, b| end(a).total_cmp(&end(b)));
        let room = 15.0 * named.len().saturating_sub(1) as f64;
        let mut next = self.at.1 + self.size.1 - room;
        let mut places: Vec<f64> = Vec::new();
        for line in named.iter() {
            // The last ones must stay on the page as well.
            let least = places.last().map_or(f64::NEG_INFINITY, |last| last + 15.0);
            places.push(end(line).min(next).max(least));
            next += 15.0;
        }
        let right = self.at.0 + self.size.0 + 8.0;
        let name =
            |(line, at): (&&Line, f64)| text((right, at + 4.0), "start", line.colour, &line.name);
        named.iter().zip(places).map(name).collect()
    }
}
