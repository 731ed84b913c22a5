"""All operators of the high-level IR, one file a family; see each class for its formula."""

import glow_nb.hlir.ops.unrolled_recurrence
from glow_nb.hlir.ops.activation import (
    Clip,
    Elu,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    PRelu,
    Relu,
    Sigmoid,
    Softplus,
    Swish,
    Tanh,
)
from glow_nb.hlir.ops.arithmetic import (
    Add,
    And,
    BitShift,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    Div,
    Maximum,
    Minimum,
    Modulo,
    Mul,
    Or,
    Pow,
    Sub,
    Xor,
)
from glow_nb.hlir.ops.attention import Attention
from glow_nb.hlir.ops.batch_norm_training import BatchNormTraining
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.columns_to_image import ColumnsToImage
from glow_nb.hlir.ops.comparison import Equal, Greater, GreaterEqual, Less, LessEqual, Select
from glow_nb.hlir.ops.convolution import Convolution
from glow_nb.hlir.ops.convolution_filter_gradient import ConvolutionFilterGradient
from glow_nb.hlir.ops.decide_size import DecideSize
from glow_nb.hlir.ops.dequantizing_products import DequantizingMatMul
from glow_nb.hlir.ops.elementwise import (
    Abs,
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    BitCast,
    Ceil,
    ConvertTo,
    Cos,
    Cosh,
    Erf,
    Exp,
    Floor,
    IsInf,
    IsNaN,
    Log,
    Neg,
    Not,
    Reciprocal,
    Round,
    Sign,
    Sin,
    Sinh,
    Sqrt,
    Tan,
)
from glow_nb.hlir.ops.fourier import FourierTransform
from glow_nb.hlir.ops.gather import Gather, GatherElements, GatherND
from glow_nb.hlir.ops.grid_sample import GridSample
from glow_nb.hlir.ops.group_normalization import GroupNormalization
from glow_nb.hlir.ops.insertion import InsertSlice
from glow_nb.hlir.ops.linear_quantization import DequantizeLinear, QuantizeLinear, Requantize
from glow_nb.hlir.ops.matrix import Determinant, FullyConnected, MatMul
from glow_nb.hlir.ops.normalization import (
    BatchNormalization,
    LayerNormalization,
    LocalResponseNormalization,
    LogSoftmax,
    Moments,
    Softmax,
)
from glow_nb.hlir.ops.pooling import AvgPool, MaxPool, MaxPoolWithArgmax
from glow_nb.hlir.ops.pooling_gradients import AvgPoolGradient, MaxPoolGradient
from glow_nb.hlir.ops.profile import Profile
from glow_nb.hlir.ops.quantization import (
    AsQuantized,
    Dequantize,
    IntLookupTable,
    Quantize,
    Rescale,
    Stored,
)
from glow_nb.hlir.ops.quantized_elementwise import (
    QuantizedAdd,
    QuantizedDiv,
    QuantizedMaximum,
    QuantizedMinimum,
    QuantizedMul,
    QuantizedSub,
)
from glow_nb.hlir.ops.quantized_pooling import QuantizedAveragePool
from glow_nb.hlir.ops.quantized_products import (
    QuantizedConvolution,
    QuantizedFullyConnected,
    QuantizedMatMul,
    QuantizedTransposedConvolution,
)
from glow_nb.hlir.ops.random import (
    Bernoulli,
    Dropout,
    InverseErf,
    RandomBits,
    RandomNormal,
    RandomUniform,
)
from glow_nb.hlir.ops.recurrence import Recurrence, RecurrenceGradient
from glow_nb.hlir.ops.recurrent_layer import RecurrentLayer
from glow_nb.hlir.ops.reduction import (
    ArgMax,
    ArgMin,
    CumSum,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    TopK,
)
from glow_nb.hlir.ops.regions import RoiAlign
from glow_nb.hlir.ops.scatter import ScatterElements, ScatterND
from glow_nb.hlir.ops.selection import NonMaxSuppression, NonZero, Unique
from glow_nb.hlir.ops.shape import Concat, Pad, Reshape, Slice, Split, Tile, Transpose
from glow_nb.hlir.ops.sizes import Sizes
from glow_nb.hlir.ops.transposed_convolution import TransposedConvolution

__all__ = [name for name, value in globals().items() if isinstance(value, type)]
