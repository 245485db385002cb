//! A profile as an SVG image: a bar for each region, with a mark at its least time.

use convfuse_cli::bench::Profile;
use svg::Document;
use svg::node::element::{Line, Rectangle, Text};

use crate::cli::out::plain;

const WIDTH: f64 = 960.0;
/// The left edge of the bars, and the length of the longest.
const LEFT: f64 = 300.0;
const LONGEST: f64 = 520.0;
/// The height of a row, and the height above the first row.
const ROW: f64 = 18.0;
const TOP: f64 = 56.0;
/// The length limit of a name beside the bars, in characters.
const NAME: usize = 42;

// Colours that colour-blind readers can tell apart (Okabe and Ito).
const BAR: &str = "#56b4e9";
const LEAST: &str = "#d55e00";

/// Renders the image as SVG text.
pub(super) fn of(profile: &Profile, title: &str) -> String {
    let regions: Vec<_> = profile.regions().collect();
    let times = regions
        .iter()
        .flat_map(|region| [Some(region.seconds), region.least_s]);
    let longest = times.flatten().fold(f64::MIN_POSITIVE, f64::max);
    let length = |seconds: f64| seconds / longest * LONGEST;
    let height = TOP + ROW * (regions.len() as f64 + 0.5);
    let under = format!(
        "regions: {:.1} us together; the whole run: {:.1} us; mark: the least time by the data sheet",
        profile.seconds_of_launches() * 1e6,
        profile.time.median * 1e6
    );
    let mut picture = Document::new()
        .set("viewBox", (0, 0, WIDTH, height))
        .set("width", WIDTH)
        .set("height", height)
        .set("font-family", "sans-serif")
        .set("font-size", 12)
        .add(
            Rectangle::new()
                .set("width", "100%")
                .set("height", "100%")
                .set("fill", "white"),
        )
        .add(
            Text::new(plain(title))
                .set("x", 8)
                .set("y", 20)
                .set("font-size", 14),
        )
        .add(Text::new(under).set("x", 8).set("y", 40));
    for (row, region) in regions.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        let base = y + ROW * 0.7;
        let time = format!(
            "{:.1} us, {:.1} %",
            region.seconds * 1e6,
            100.0 * region.share
        );
        let name = Text::new(short(region.name))
            .set("x", LEFT - 8.0)
            .set("y", base);
        let bar = Rectangle::new()
            .set("x", LEFT)
            .set("y", y + 2.0)
            .set("width", length(region.seconds))
            .set("height", ROW - 4.0)
            .set("fill", BAR);
        let end = region.least_s.unwrap_or(0.0).max(region.seconds);
        let time = Text::new(time)
            .set("x", LEFT + length(end) + 6.0)
            .set("y", base);
        picture = picture
            .add(name.set("text-anchor", "end"))
            .add(bar)
            .add(time);
        if let Some(least) = region.least_s {
            let x = LEFT + length(least);
            let mark = Line::new()
                .set("x1", x)
                .set("x2", x)
                .set("y1", y)
                .set("y2", y + ROW);
            picture = picture.add(mark.set("stroke", LEAST).set("stroke-width", 2));
        }
    }
    picture.to_string()
}

/// The name in one line. A long name is reduced to its end.
fn short(name: &str) -> String {
    let name = plain(name);
    match name.chars().count().checked_sub(NAME) {
        None | Some(0) => name,
        Some(more) => format!("…{}", name.chars().skip(more + 1).collect::<String>()),
    }
}
