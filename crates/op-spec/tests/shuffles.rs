//! Shuffles of channels and pixels.

use op_spec::graph::{Chain, Layer};
use op_spec::{Layout, ShuffleSpec};

const CHANNELS: ShuffleSpec = ShuffleSpec::ChannelShuffle { groups: 3 };
const PIXELS: ShuffleSpec = ShuffleSpec::PixelShuffle { upscale_factor: 2 };
const BLOCKS: ShuffleSpec = ShuffleSpec::PixelUnshuffle {
    downscale_factor: 2,
};

#[test]
fn shapes_are_those_of_pytorch() {
    let chain = Chain::new(12, [PIXELS, BLOCKS, CHANNELS].map(Layer::from)).unwrap();
    let problem = chain.problem(&[2, 12, 5, 7]).unwrap();
    let shapes: Vec<&[usize]> = problem.steps.iter().map(|step| &step.output[..]).collect();
    assert_eq!(shapes, [[2, 3, 10, 14], [2, 12, 5, 7], [2, 12, 5, 7]]);
    let text = r#"{"in_channels":12,"layers":[{"pixel_shuffle":{"upscale_factor":2}},{"pixel_unshuffle":{"downscale_factor":2}},{"channel_shuffle":{"groups":3}}]}"#;
    assert_eq!(serde_json::to_string(&chain).unwrap(), text);
    assert_eq!(serde_json::from_str::<Chain>(text).unwrap(), chain);
    // An image without a batch, and a convolution of the shuffle's output channels.
    let layers = [Layer::from(PIXELS), Layer::conv2d("conv", 5, 1).into()];
    let chain = Chain::new(12, layers).unwrap();
    assert_eq!(chain.parameters()[0].shape, [5, 3, 1, 1]);
    let alone = Chain::new(12, [Layer::from(PIXELS)]).unwrap();
    assert!(alone.lacks_batch(&[12, 5, 7]));
    assert_eq!(
        chain.problem(&[12, 5, 7]).unwrap().output_shape(),
        [5, 10, 14]
    );
}

#[test]
fn axes_are_those_of_memory() {
    let axes = |spec: ShuffleSpec, layout| {
        let problem = spec.problem(&[2, 12, 4, 6]).unwrap();
        let extents = |axes: [usize; 6]| axes.map(|axis| problem.extents[axis]);
        problem.axes(layout).map(extents)
    };
    // Batch, channels, two factors, rows, columns.
    let split = [2, 3, 2, 2, 4, 6];
    assert_eq!(axes(PIXELS, Layout::Nchw), [split, [2, 3, 4, 2, 6, 2]]);
    let nhwc = [[2, 4, 6, 3, 2, 2], [2, 4, 2, 6, 2, 3]];
    assert_eq!(axes(PIXELS, Layout::Nhwc), nhwc);
    let [input, output] = axes(BLOCKS, Layout::Nhwc);
    assert_eq!([input, output], [[2, 2, 2, 3, 2, 12], [2, 2, 3, 12, 2, 2]]);
    let nhwc = [[2, 1, 24, 3, 4, 1], [2, 1, 24, 4, 3, 1]];
    assert_eq!(axes(CHANNELS, Layout::Nhwc), nhwc);
}

#[test]
fn what_does_not_fit_is_refused() {
    let groups = |groups| ShuffleSpec::ChannelShuffle { groups };
    let up = |upscale_factor| ShuffleSpec::PixelShuffle { upscale_factor };
    let down = |downscale_factor| ShuffleSpec::PixelUnshuffle { downscale_factor };
    refused! {
        groups(0).problem(&[1, 4, 5]) => "channel_shuffle: groups is 0, minimum 1";
        groups(3).problem(&[1, 4, 5])
            => "channel_shuffle: channels is 4, which is not a multiple of groups 3";
        groups(2).problem(&[1, 4]) => "channel_shuffle: input has rank 2, minimum 3";
        groups(2).problem(&[]) => "channel_shuffle: input has rank 0, minimum 3";
        up(0).problem(&[1, 4, 5, 6]) => "pixel_shuffle: upscale_factor is 0, minimum 1";
        up(2).problem(&[1, 6, 5, 6])
            => "pixel_shuffle: channels is 6, which is not a multiple of upscale_factor squared 4";
        up(2).problem(&[1, 4, 5]) => "pixel_shuffle: input has rank 3, expected 4";
        down(0).problem(&[1, 4, 5, 6]) => "pixel_unshuffle: downscale_factor is 0, minimum 1";
        down(2).problem(&[1, 4, 5, 6])
            => "pixel_unshuffle: input's height is 5, which is not a multiple of downscale_factor 2";
        down(2).problem(&[1, 4, 6, 5])
            => "pixel_unshuffle: input's width is 5, which is not a multiple of downscale_factor 2";
        down(2).problem(&[1, 4, 5, 6, 7]) => "pixel_unshuffle: input has rank 5, expected 4";
        Chain::new(6, [Layer::pixel_shuffle(2)])
            => "layer 0: pixel_shuffle: channels is 6, which is not a multiple of upscale_factor squared 4";
    }
    says! {
        // The input is empty, but the output's extents exceed every tensor's.
        up(1 << 40).problem(&[1, 0, 1, 1]) => "pixel_shuffle: output has more elements";
        up(usize::MAX).problem(&[1, 0, 2, 1]) => "pixel_shuffle: output has more elements";
        down(1 << 40).problem(&[1, 4, 0, 0]) => "pixel_unshuffle: output has more elements";
        down(1 << 20).problem(&[1 << 20, 4, 0, 1 << 20]) => "pixel_unshuffle: output has more elements";
        Chain::new(1, [Layer::pixel_unshuffle(usize::MAX)]) => "pixel_unshuffle: output has more elements";
        Chain::new(4, [Layer::channel_shuffle(2)]).unwrap().problem(&[5, 4]) => "input has rank 2, minimum 3";
        Chain::new(4, [Layer::from(Layer::conv2d("c", 4, 1)), Layer::channel_shuffle(2)]).unwrap().problem(&[4, 5, 6])
            => "channel_shuffle: the input has rank 3 and no batch";
        Chain::new(4, [Layer::from(Layer::conv3d("c", 4, 1)), Layer::pixel_shuffle(2)])
            => "layer 1: pixel_shuffle: spatial dimensions are 3, expected 2";
    }
    let empty = groups(2).problem(&[0, 4, 5, 6]).unwrap();
    assert_eq!((empty.elements(), empty.extents), (0, [0, 2, 2, 1, 1, 30]));
}
