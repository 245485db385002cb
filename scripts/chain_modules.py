"""PyTorch's modules for a chain as convfuse's files have it: operators and attributes go by PyTorch's names
there."""

import torch
from torch import nn

CONVOLUTIONS = {
    "conv1d": nn.Conv1d,
    "conv2d": nn.Conv2d,
    "conv3d": nn.Conv3d,
    "conv_transpose1d": nn.ConvTranspose1d,
    "conv_transpose2d": nn.ConvTranspose2d,
    "conv_transpose3d": nn.ConvTranspose3d,
}
# By spatial dimensions.
INSTANCE_NORMS = {1: nn.InstanceNorm1d, 2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}
BATCH_NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
PADS = {"zeros": "Zero", "reflect": "Reflection", "replicate": "Replication", "circular": "Circular"}
# Modules that need to know nothing but their attributes.
OTHERS = {
    "flatten": nn.Flatten,
    "linear": nn.Linear,
    "upsample": nn.Upsample,
    "channel_shuffle": nn.ChannelShuffle,
    "pixel_shuffle": nn.PixelShuffle,
    "pixel_unshuffle": nn.PixelUnshuffle,
    "layer_norm": nn.LayerNorm,
    "max_pool2d": nn.MaxPool2d,
    "max_pool3d": nn.MaxPool3d,
    "avg_pool2d": nn.AvgPool2d,
    "avg_pool3d": nn.AvgPool3d,
    "adaptive_avg_pool2d": nn.AdaptiveAvgPool2d,
    "adaptive_avg_pool3d": nn.AdaptiveAvgPool3d,
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "hardswish": nn.Hardswish,
    "elu": nn.ELU,
    "softplus": nn.Softplus,
    "mish": nn.Mish,
    "prelu": nn.PReLU,
}


class Clamp(nn.Module):
    """`torch.clamp`."""

    def __init__(self, min=None, max=None):
        super().__init__()
        self.min, self.max = min, max

    def forward(self, x):
        return torch.clamp(x, self.min, self.max)


class Scale(nn.Module):
    """A product with one factor per channel."""

    def __init__(self, channels, dimensions):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels, *[1] * dimensions))

    def forward(self, x):
        return x * self.scale


class Reduction(nn.Module):
    """PyTorch's reduction of this name; of maxima and minima that without indices."""

    def __init__(self, name, dim, keepdim=False):
        super().__init__()
        self.function = getattr(torch, f"a{name}", None) or getattr(torch, name)
        self.dim, self.keepdim = dim, keepdim

    def forward(self, x):
        return self.function(x, dim=self.dim, keepdim=self.keepdim)


class Softmax(nn.Module):
    """PyTorch's softmax, or its logarithm, over neighbouring dimensions as over one."""

    def __init__(self, name, dim):
        super().__init__()
        self.function, self.dim = getattr(torch, name), dim

    def forward(self, x):
        dims = self.dim if isinstance(self.dim, tuple) else (self.dim,)
        first, last = min(one % x.dim() for one in dims), max(one % x.dim() for one in dims)
        return self.function(x.flatten(first, last), first).view(x.shape)


class Chain(nn.Sequential):
    """A chain's modules in their order, for inference."""

    def __init__(self, chain, rank):
        """The modules for inputs of this rank. A chain with an operator that has no module here is a
        `ValueError`."""
        super().__init__()
        channels, dimensions = chain["in_channels"], rank - 2
        # Layers of one name share their parameters.
        self.named = {}
        for layer in chain["layers"]:
            ((operator, attributes),) = layer.items()
            attributes = {key: as_argument(value) for key, value in attributes.items()}
            name = attributes.pop("name", None)
            module = self.named.get(name) or module_of(operator, attributes, channels, dimensions)
            if operator in CONVOLUTIONS:
                channels = attributes["out_channels"]
            if name is not None:
                self.named[name] = module
            self.append(module)
        self.eval()

    def entries(self):
        """Parameters and running statistics under the names that convfuse stores them by."""
        found = {}
        for name, module in self.named.items():
            for key, tensor in module.state_dict().items():
                if key != "num_batches_tracked":
                    found[name if isinstance(module, Scale) else f"{name}.{key}"] = tensor
        return found

    def load(self, values):
        """Takes parameters over; one that is missing is a `KeyError`."""
        with torch.no_grad():
            for name, tensor in self.entries().items():
                tensor.copy_(values[name].reshape(tensor.shape))
        return self


def as_argument(value):
    """JSON's lists are PyTorch's tuples."""
    return tuple(value) if isinstance(value, list) else value


def module_of(operator, attributes, channels, dimensions):
    """The module of one layer."""
    if operator in CONVOLUTIONS:
        return CONVOLUTIONS[operator](channels, **attributes)
    if operator == "group_norm":
        return nn.GroupNorm(num_channels=channels, **attributes)
    if operator == "instance_norm":
        return INSTANCE_NORMS[dimensions](channels, **attributes)
    if operator == "batch_norm":
        return BATCH_NORMS[dimensions](channels, **attributes)
    if operator == "scale":
        return Scale(channels, dimensions)
    if operator == "clamp":
        return Clamp(**attributes)
    if operator in ("softmax", "log_softmax"):
        return Softmax(operator, **attributes)
    if operator == "pad":
        kind = PADS[attributes.get("padding_mode", "zeros")]
        return getattr(nn, f"{kind}Pad{dimensions}d")(attributes["padding"])
    if operator == "reshape":
        return nn.Sequential(nn.Flatten(), nn.Unflatten(1, attributes["shape"]))
    if operator in ("linear", "layer_norm") and "dim" in attributes:
        raise ValueError(f"{operator}: has no module of the channels here")
    if "dim" in attributes and operator not in ("cat", "narrow"):
        return Reduction(operator, **attributes)
    if operator in OTHERS:
        return OTHERS[operator](**attributes)
    raise ValueError(f"{operator}: has no module here")
