// SPDX-License-Identifier: GPL-3.0-or-later
//! Line charts with axes, as SVG text.

use std::fmt::Write as _;

/// Colours of the policies (Okabe and Ito: distinct also for people who see no colours).
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555"];

/// The colour of the policy at a position.
pub(super) fn colour(at: usize) -> &'static str {
    COLOURS.get(at % COLOURS.len()).copied().unwrap_or("#000000")
}

/// Text that cannot be taken for markup.
pub fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

/// Width of every picture, and margins around the plot.
pub(super) const WIDTH: f64 = 960.0;
pub(super) const LEFT: f64 = 64.0;
pub(super) const RIGHT: f64 = 16.0;
pub(super) const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// A direction of a plot: values, marks and pixels.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Name with the unit.
    pub name: &'static str,
    /// Least value.
    pub low: f64,
    /// Largest value.
    pub high: f64,
    /// Whether equal steps of the axis are equal factors.
    pub log: bool,
    /// Positions of marks, and their texts.
    pub marks: Vec<(f64, String)>,
}

impl Axis {
    /// Share of the way from the low to the high end.
    pub(super) fn share(&self, value: f64) -> f64 {
        let of = |v: f64| if self.log { v.max(f64::MIN_POSITIVE).ln() } else { v };
        let (low, high) = (of(self.low), of(self.high));
        if high > low { ((of(value) - low) / (high - low)).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Makes an axis to a round number, with about five marks.
    pub fn linear(name: &'static str, low: f64, high: f64, unit: &str) -> Self {
        let span = (high - low).max(1e-9);
        let power = 10f64.powf((span / 5.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|step| span / step <= 6.0).unwrap_or(power * 10.0);
        let mut marks = Vec::new();
        let mut at = (low / step).ceil() * step;
        while at <= high + step * 1e-9 && marks.len() < 20 {
            marks.push((at, format!("{}{unit}", (at * 1e6).round() / 1e6 + 0.0)));
            at += step;
        }
        Self { name, low, high, log: false, marks }
    }
}

/// A named line.
#[derive(Debug)]
pub struct Line<'a> {
    /// Name.
    pub name: &'a str,
    /// Horizontal and vertical values.
    pub points: Vec<(f64, f64)>,
}

/// A chart of lines in the policies' colours, below their names.
pub fn chart(x: &Axis, y: &Axis, lines: &[Line<'_>], height: f64) -> String {
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n");
    frame(&mut out, x, y, height);
    let mut legend = String::from("<p>");
    for (at, line) in lines.iter().enumerate() {
        let (colour, name, mut path) = (colour(at), escape(line.name), String::new());
        let _ = write!(legend, "<i style=\"background:{colour}\"></i>{name} &ensp; ");
        for (px, py) in &line.points {
            let (px, py) = (pixel_x(x, *px), pixel_y(y, *py, height));
            let _ = write!(path, "{px:.1},{py:.1} ");
        }
        let _ = writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" \
             stroke-linejoin=\"round\" points=\"{}\"/>",
            path.trim_end()
        );
    }
    legend + "</p>\n" + &out + "</svg>\n"
}

pub(super) fn pixel_x(axis: &Axis, value: f64) -> f64 {
    LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT)
}

pub(super) fn pixel_y(axis: &Axis, value: f64, height: f64) -> f64 {
    height - BOTTOM - axis.share(value) * (height - BOTTOM - TOP)
}

/// Axes with marks, grid and names.
pub(super) fn frame(out: &mut String, x: &Axis, y: &Axis, height: f64) {
    let (right, bottom) = (WIDTH - RIGHT, height - BOTTOM);
    for (value, text) in &y.marks {
        let at = pixel_y(y, *value, height);
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            LEFT - 8.0,
            at + 4.0
        );
    }
    for (value, text) in &x.marks {
        let at = pixel_x(x, *value);
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{:.1}\" stroke=\"#999\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
            bottom + 5.0,
            bottom + 19.0
        );
    }
    let middle = f64::midpoint(LEFT, right);
    let _ = writeln!(
        out,
        "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\" stroke=\"#999\"/>\
         <text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        height - 6.0,
        x.name,
        f64::midpoint(TOP, bottom),
        y.name
    );
}
