"""The number of occurrences of each operator in regions of the drawn models. An unnecessary refusal changes
these counts, but no value.

Changing the draws changes the counts."""

IN_REGIONS = {
    "convolution": 82, "replication_pad2d": 4, "_native_batch_norm_legit_functional": 11,
    "rsub.Tensor": 17, "minimum": 2, "relu": 9, "mish": 3, "clamp_min": 3, "max_pool2d_with_indices": 9,
    "_adaptive_avg_pool3d": 1, "min.dim": 3, "constant_pad_nd": 5, "replication_pad3d": 4,
    "native_layer_norm": 7, "rsub.Scalar": 5, "maximum": 3, "silu": 3, "leaky_relu": 13, "clamp_max": 4,
    "max_pool3d_with_indices": 10, "_softmax": 3, "sum.dim_IntList": 1, "reflection_pad1d": 2,
    "native_group_norm": 34, "add.Tensor": 28, "mul.Tensor": 54, "neg": 11, "sigmoid": 8, "softplus": 4,
    "clamp.Tensor": 4, "avg_pool2d": 9, "_log_softmax": 3, "logsumexp": 5, "reflection_pad2d": 3,
    "_native_batch_norm_legit.no_stats": 16, "add.Scalar": 4, "mul.Scalar": 3, "_prelu_kernel": 9,
    "tanh": 6, "elu": 4, "clamp_min.Tensor": 1, "avg_pool3d": 4, "amax": 7, "reflection_pad3d": 1,
    "view": 32, "sub.Tensor": 5, "div.Tensor": 8, "_to_copy": 2, "hardswish": 1, "hardtanh": 3,
    "clamp_max.Tensor": 2, "mean.dim": 3, "max.dim": 4, "replication_pad1d": 6,
    "_native_batch_norm_legit_no_training": 9, "sub.Scalar": 4, "div.Scalar": 4, "clone": 3,
    "hardsigmoid": 4, "clamp": 7, "gelu": 3, "_adaptive_avg_pool2d": 2, "amin": 4,
}
