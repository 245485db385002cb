//! Just enough SVG: lines, boxes, dots, text.
//!
//! Text is left to the viewer's own sans-serif font, so widths are only estimated; nothing depends on them
//! but spacing.

use std::fmt::Write;

/// A drawing under construction.
pub(super) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// Where a text is anchored.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    const fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Svg {
        Svg {
            body: String::new(),
            width,
            height,
        }
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, dashed: bool) {
        let dash = if dashed {
            " stroke-dasharray=\"5 4\""
        } else {
            ""
        };
        self.element(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{stroke}\"{dash}/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A box from its upper left corner.
    pub(super) fn rect(&mut self, corner: (f64, f64), size: (f64, f64), fill: &str) {
        self.element(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{fill}\"/>",
            corner.0,
            corner.1,
            size.0.max(0.0),
            size.1.max(0.0)
        ));
    }

    /// A dot that says `title` when pointed at.
    pub(super) fn dot(&mut self, center: (f64, f64), fill: &str, title: &str) {
        self.element(format_args!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{fill}\"><title>{}</title></circle>",
            center.0,
            center.1,
            escape(title)
        ));
    }

    /// A text on its baseline.
    pub(super) fn text(&mut self, at: (f64, f64), anchor: Anchor, size: f64, text: &str) {
        self.element(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{size}\" text-anchor=\"{}\">{}</text>",
            at.0,
            at.1,
            anchor.name(),
            escape(text)
        ));
    }

    fn element(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.body, "{element}").expect("a string takes all");
    }

    pub(super) fn finish(self) -> String {
        let Svg {
            body,
            width,
            height,
        } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" fill=\"#222222\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{body}</svg>\n"
        )
    }
}

/// The text with what XML reserves written otherwise.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            // XML has no way to say most control characters.
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_characters_are_escaped() {
        assert_eq!(escape("a<b & \"c\">\n"), "a&lt;b &amp; &quot;c&quot;&gt; ");
    }
}
