//! What is wanted of a kernel that convolves, takes moments and keeps extrema.

use op_spec::launch::conv::ConvGeometry;

use super::Wanted;

/// The convolution with the sums of magnitudes behind it, `[n][k][z][p][q]`.
pub(super) fn convolved(g: &ConvGeometry, x: &[f32], w: &[f32], bias: &[f32]) -> Vec<(f64, f64)> {
    let mut all = Vec::new();
    let inside = |at: u32, extent: u32, pad: u32| at.checked_sub(pad).filter(|&at| at < extent);
    for n in 0..g.n as u32 {
        for k in 0..g.output_channels() {
            let group = k / g.group_k;
            for position in 0..g.output_pixels() {
                let (z, p, q) = (position / g.q / g.p, position / g.q % g.p, position % g.q);
                let (mut sum, mut magnitude) = (f64::from(bias[k as usize]), 0.0);
                for tap in 0..g.reduction() {
                    let (c, t) = (tap / g.taps(), tap / (g.r * g.s) % g.t);
                    let (r, s) = (tap / g.s % g.r, tap % g.s);
                    let d = inside(z * g.stride_d + t * g.dilation_d, g.d, g.pad_d);
                    let h = inside(p * g.stride_h + r * g.dilation_h, g.h, g.pad_h);
                    let v = inside(q * g.stride_w + s * g.dilation_w, g.w, g.pad_w);
                    if let (Some(d), Some(h), Some(v)) = (d, h, v) {
                        let plane = n * g.input_channels() + group * g.group_c + c;
                        let at = ((plane * g.d + d) * g.h + h) * g.w + v;
                        let term = f64::from(x[at as usize])
                            * f64::from(w[(k * g.reduction() + tap) as usize]);
                        sum += term;
                        magnitude += term.abs();
                    }
                }
                all.push((sum, magnitude));
            }
        }
    }
    all
}

/// What is wanted of the moments of each plane: count, mean, sum of squared deviations, 0.
pub(super) fn wanted_moments(planes: &[&[(f64, f64)]], rounding: f64) -> Vec<Wanted> {
    let mut all = Vec::new();
    for plane in planes {
        let count = plane.len() as f64;
        let mean = plane.iter().map(|y| y.0).sum::<f64>() / count;
        let m2 = plane.iter().map(|y| (y.0 - mean).powi(2)).sum::<f64>();
        let magnitude = plane.iter().map(|y| y.1).fold(0.0, f64::max);
        // The values are added up in f32, 32 in a row at most.
        let off = rounding * magnitude + 8.0 * f64::exp2(-24.0) * mean.abs();
        let within = |value, tolerance| Wanted { value, tolerance };
        all.push(Wanted::exact(count));
        all.push(within(mean, off));
        all.push(within(
            m2,
            2.0 * off * (m2 * count).sqrt() + count * off * off,
        ));
        all.push(Wanted::exact(0.0));
    }
    all
}

/// What is wanted of the output, or, where there is a pool (the extents of its windows, and how many rows and columns
/// of them there are), of each window: the value that is the largest after a multiplication with the channel's `scale`.
pub(super) fn wanted_results(
    planes: &[&[(f64, f64)]],
    conv: &ConvGeometry,
    pool: Option<[u32; 4]>,
    scale: &[f32],
    rounding: f64,
) -> Vec<Wanted> {
    let within = |y: &(f64, f64)| Wanted {
        value: y.0,
        tolerance: rounding * (y.1 + y.0.abs()),
    };
    let Some([h, w, pooled_h, pooled_w]) = pool else {
        return planes.iter().copied().flatten().map(within).collect();
    };
    let mut wanted = Vec::new();
    for (plane, &scale) in planes.iter().zip(scale.iter().cycle()) {
        let sign = if scale < 0.0 { -1.0 } else { 1.0 };
        for window in 0..pooled_h * pooled_w {
            let (p, q) = (window / pooled_w * h, window % pooled_w * w);
            let elements = (0..h * w).map(|i| &plane[((p + i / w) * conv.q + q + i % w) as usize]);
            let tolerance = elements
                .clone()
                .map(|y| within(y).tolerance)
                .fold(0.0, f64::max);
            let largest = elements
                .map(|y| sign * y.0)
                .fold(f64::NEG_INFINITY, f64::max);
            wanted.push(Wanted {
                value: sign * largest,
                tolerance,
            });
        }
    }
    wanted
}
