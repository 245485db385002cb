"""The number of occurrences of each operator in regions of the drawn models. An unnecessary refusal changes
these counts, but no value.

Changing the draws changes the counts."""

IN_REGIONS = {
    "convolution": 80, "replication_pad2d": 5, "_native_batch_norm_legit_functional": 9,
    "rsub.Tensor": 13, "minimum": 3, "relu": 8, "mish": 4, "clamp_min": 3, "max_pool2d_with_indices": 8,
    "_adaptive_avg_pool3d": 1, "min.dim": 3, "constant_pad_nd": 2, "replication_pad3d": 3,
    "native_layer_norm": 7, "rsub.Scalar": 5, "maximum": 3, "silu": 3, "leaky_relu": 10, "clamp_max": 4,
    "max_pool3d_with_indices": 10, "_softmax": 3, "sum.dim_IntList": 1, "reflection_pad1d": 3,
    "native_group_norm": 32, "add.Tensor": 27, "mul.Tensor": 55, "neg": 12, "sigmoid": 8, "softplus": 4,
    "clamp.Tensor": 4, "avg_pool2d": 9, "_log_softmax": 3, "logsumexp": 5, "reflection_pad2d": 2,
    "_native_batch_norm_legit.no_stats": 17, "add.Scalar": 4, "mul.Scalar": 3, "_prelu_kernel": 10,
    "tanh": 6, "elu": 4, "clamp_min.Tensor": 1, "avg_pool3d": 6, "amax": 8, "reflection_pad3d": 1,
    "view": 40, "sub.Tensor": 8, "div.Tensor": 8, "_to_copy": 1, "hardswish": 2, "hardtanh": 2,
    "clamp_max.Tensor": 1, "mean.dim": 2, "max.dim": 3, "replication_pad1d": 4,
    "_native_batch_norm_legit_no_training": 9, "sub.Scalar": 4, "div.Scalar": 4, "clone": 3,
    "hardsigmoid": 3, "clamp": 7, "gelu": 3, "_adaptive_avg_pool2d": 1, "amin": 5,
}
