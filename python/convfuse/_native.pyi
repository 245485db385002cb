"""The native half: what it knows of chains, and the registration of operators."""

__version__: str

def normalized(text: str) -> str:
    """The chain in JSON as the library writes it down. ``ValueError`` says what is wrong with one that it refuses."""

def network(text: str) -> str:
    """The network in JSON, or the chain as one, as the library writes it down. ``ValueError`` says what is wrong with one that it refuses."""

def parameters(text: str) -> list[tuple[str, list[int], str]]:
    """Name, shape and initialisation (``uniform``, ``ones``, ``zeros``, ``normal``) of each parameter of a chain or a network."""

def inputs(text: str) -> list[str]:
    """The names of the inputs of a chain beside the first one."""

def output_shape(text: str, input: list[int]) -> list[int]:
    """The shape of the output of a chain for a first input of this shape."""

def output_shapes(text: str, input: list[int]) -> list[list[int]]:
    """The shapes of the outputs of a network for a first input of this shape."""

def multiply_adds(text: str, input: list[int]) -> int:
    """The multiply-adds of the convolutions and linear maps of a network for a first input of this shape."""

def explain(text: str, input: list[int], fast: bool, ordinal: int) -> str:
    """What the GPU with this ordinal launches for a chain and an input of this shape, and why."""

def known_devices() -> list[str]:
    """Names of devices whose properties the library knows without one."""

def register() -> None:
    """Registers ``torch.ops.convfuse`` with the PyTorch that is loaded. ``ImportError`` where there is none, or one before 2.10."""

def kept_plans() -> int:
    """How many plans are kept: launches by chain, device, math mode, and element types, shapes and strides of inputs and parameters.
    The 256 used last are."""

def clear() -> None:
    """Drops the plans that are kept; they are made again when they are needed. Captured CUDA graphs need none."""

class ArrayModel:
    """A chain with parameters, to be run on arrays of one device. ``ordinal`` names a GPU; none, the CPU."""

    def __init__(
        self, text: str, dtype: str, ordinal: int | None, parameters: list[object]
    ) -> None: ...
    def run(self, inputs: list[object], fast: bool) -> list[Array]:
        """The outputs for the capsules of the first input and of the further ones."""

class Array:
    """What a model computed, for whoever takes it by DLPack. Its elements must not be written to."""

    shape: list[int]
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object: ...

def array_stream(ordinal: int) -> int:
    """The handle of the stream on which the models of a GPU run."""
