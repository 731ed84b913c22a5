"""The names of ``import glow_nb``, from the modules that define them.

The package imports this module when the first of these names is asked for. A process that needs a
part of the package alone, as one that loads a native program does, imports that part alone.
"""

from __future__ import annotations

from glow_nb.backends import Backend as Backend
from glow_nb.backends import Cpu as Cpu
from glow_nb.backends.interpreter import Interpreter as Interpreter
from glow_nb.base.errors import CalibrationError as CalibrationError
from glow_nb.base.errors import CompileError as CompileError
from glow_nb.base.errors import DeadlineError as DeadlineError
from glow_nb.base.errors import DefinitionError as DefinitionError
from glow_nb.base.errors import DeviceError as DeviceError
from glow_nb.base.errors import FeedError as FeedError
from glow_nb.base.errors import GlowError as GlowError
from glow_nb.base.errors import GlowWarning as GlowWarning
from glow_nb.base.errors import GradientError as GradientError
from glow_nb.base.errors import MemoryLimitError as MemoryLimitError
from glow_nb.base.errors import ModelError as ModelError
from glow_nb.base.errors import OptionError as OptionError
from glow_nb.base.errors import ParseError as ParseError
from glow_nb.base.errors import PartitionError as PartitionError
from glow_nb.base.errors import PassError as PassError
from glow_nb.base.errors import RefusedError as RefusedError
from glow_nb.base.errors import StateError as StateError
from glow_nb.base.errors import TrainingError as TrainingError
from glow_nb.base.errors import UnsupportedError as UnsupportedError
from glow_nb.base.errors import VerifyError as VerifyError
from glow_nb.base.finite import FiniteCheck as FiniteCheck
from glow_nb.base.finite import NonFiniteError as NonFiniteError
from glow_nb.base.steps import Repeat as Repeat
from glow_nb.base.steps import Step as Step
from glow_nb.compiler.pipelines import INFERENCE as INFERENCE
from glow_nb.compiler.pipelines import INSTRUCTIONS as INSTRUCTIONS
from glow_nb.compiler.pipelines import TRAINING as TRAINING
from glow_nb.compiler.pipelines import Pipeline as Pipeline
from glow_nb.formats.onnx.export import export_onnx as export_onnx
from glow_nb.hlir.builder import Builder as Builder
from glow_nb.hlir.differentiate import differentiate as differentiate
from glow_nb.hlir.evaluate import evaluate as evaluate
from glow_nb.hlir.graph import Constant as Constant
from glow_nb.hlir.graph import Function as Function
from glow_nb.hlir.graph import Node as Node
from glow_nb.hlir.graph import Placeholder as Placeholder
from glow_nb.hlir.graph import State as State
from glow_nb.hlir.graph import Value as Value
from glow_nb.hlir.module import Module as Module
from glow_nb.hlir.passes import register_pass as register_pass
from glow_nb.hlir.rewrite import Rewriter as Rewriter
from glow_nb.hlir.rewrite import rewrite as rewrite
from glow_nb.network.build import build as build
from glow_nb.network.compilation import lower_for as lower_for
from glow_nb.network.compilation import optimize as optimize
from glow_nb.network.compiling import compile as compile
from glow_nb.network.dynamic import DynamicNetwork as DynamicNetwork
from glow_nb.network.files import save_text as save_text
from glow_nb.network.growing import GrowingNetwork as GrowingNetwork
from glow_nb.network.loading import load as load
from glow_nb.network.loading import load_module as load_module
from glow_nb.network.loading import load_program as load_program
from glow_nb.network.module_network import ModuleNetwork as ModuleNetwork
from glow_nb.network.network import CompiledNetwork as CompiledNetwork
from glow_nb.network.network import Network as Network
from glow_nb.network.plan_report import plans as plans
from glow_nb.network.printing import print_ir as print_ir
from glow_nb.network.saved.load_compiled import load_compiled as load_compiled
from glow_nb.network.staged import StagedNetwork as StagedNetwork
from glow_nb.network.versions import show_versions as show_versions
