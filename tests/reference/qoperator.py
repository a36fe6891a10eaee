#!/usr/bin/env python3
"""Makes tests/reference/qoperator/, what tests/qoperator_test.cc is held against: models with com.microsoft's ops on bytes,
their inputs, and the outputs that ONNX Runtime computes for them.

    .venv/bin/python tests/reference/qoperator.py

ops: single ops with their attributes, types and absent operands. network: a small network in the manner of MobileNetV2
as ONNX Runtime's quantizer writes it with QuantFormat.QOperator. Needs the packages onnx and onnxruntime (make peers). On
x86-64 the processor should have VNNI: without it ONNX Runtime's products of u8 and i8 may saturate.
"""
import pathlib
import sys

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "tests/reference/qoperator"
sys.path.insert(0, str(ROOT / "bench/peers"))
from mobile_network import mobile_network, quantize  # noqa: E402  pylint: disable=wrong-import-position

RANDOM = numpy.random.default_rng(7)
F, U8, I8 = numpy.float32, numpy.uint8, numpy.int8


def random_bytes(dtype, *shape):
    info = numpy.iinfo(dtype)
    return RANDOM.integers(info.min, info.max + 1, shape, dtype)


class Ops:
    """A model of nodes that do not depend on each other: an output each, named by the case."""

    def __init__(self):
        self.inputs = {"image": random_bytes(U8, 1, 4, 7, 6), "signed": random_bytes(I8, 1, 4, 7, 6),
                       "last": random_bytes(U8, 1, 7, 6, 4), "rows": random_bytes(U8, 5, 17),
                       "columns": random_bytes(U8, 17, 5), "signed_rows": random_bytes(I8, 5, 17)}
        self.nodes, self.constants, self.outputs = [], [], []

    def add(self, case, op, operands, **attributes):
        """Operands are names of inputs, arrays, numbers of NumPy, or None; ONNX Runtime wants some absent ones named."""
        names = []
        for operand in operands:
            if operand is None or isinstance(operand, str):
                names.append(operand or "")
                continue
            self.constants.append(numpy_helper.from_array(numpy.asarray(operand), f"c{len(self.constants)}"))
            names.append(self.constants[-1].name)
        self.nodes.append(helper.make_node(op, names, [case], case, domain="com.microsoft", **attributes))
        self.outputs.append(case)

    def model(self):
        inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
                  for name, value in self.inputs.items()]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "ops", inputs, outputs, self.constants)
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13),
                                                                     helper.make_opsetid("com.microsoft", 1)])


def single_ops():
    # Scales that no small fraction is: elsewhere sums lie between two steps, and rounding may take either.
    m = Ops()
    image, signed, last = ("image", F(.0193), U8(120)), ("signed", F(.0311), I8(-5)), ("last", F(.0193), U8(120))
    other = (random_bytes(U8, 1, 4, 7, 6), F(.0487), U8(7))
    m.add("add", "QLinearAdd", [*image, *other, F(.0613), U8(31)])
    m.add("add_signed", "QLinearAdd", [*signed, *signed, F(.0487), I8(3)])
    m.add("add_broadcast", "QLinearAdd", [*image, random_bytes(U8, 4, 1, 1), F(.0487), U8(7), F(.0613), U8(31)])
    m.add("add_number", "QLinearAdd", [*image, U8([77]), F(.0487), U8(7), F(.0613), U8(31)])
    m.add("add_no_zero_point", "QLinearAdd", [*image, *other, F(.0613)])
    m.add("mul", "QLinearMul", [*image, *other, F(.1031), U8(60)])
    m.add("mul_signed", "QLinearMul", [*signed, *signed, F(.0613), I8(-90)])
    m.add("mul_broadcast", "QLinearMul", [*image, random_bytes(U8, 1, 4, 1, 1), F(.00973), U8(0), F(.0193), U8(99)])
    m.add("sigmoid", "QLinearSigmoid", [*image, F(1 / 256), U8(0)])
    m.add("sigmoid_signed", "QLinearSigmoid", [*signed, F(1 / 256), I8(-128)])
    m.add("sigmoid_no_zero_points", "QLinearSigmoid", ["signed", F(.0311), None, F(.00973), None])
    m.add("leaky", "QLinearLeakyRelu", [*image, F(.0147), U8(60)])
    m.add("leaky_signed", "QLinearLeakyRelu", ["signed", F(.0311), None, F(.0193), I8(-40)], alpha=.3)
    m.add("softmax", "QLinearSoftmax", [*image, F(1 / 256), U8(0)], opset=13, axis=1)
    m.add("softmax_matrix", "QLinearSoftmax", [*image, F(1 / 256), U8(0)], opset=11)
    m.add("pool", "QLinearAveragePool", [*image, F(.01131), U8(100)], kernel_shape=[3, 3], strides=[2, 2],
          pads=[1, 0, 1, 1])
    m.add("pool_last", "QLinearAveragePool", [*last, F(.01131), U8(100)], kernel_shape=[2, 3], pads=[1, 1, 0, 1],
          count_include_pad=1, channels_last=1)
    m.add("pool_ceil", "QLinearAveragePool", [*signed, F(.0193), I8(4)], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    m.add("pool_ceil_padding", "QLinearAveragePool", [*image, F(.0147), U8(110)], kernel_shape=[3, 3], strides=[2, 2],
          pads=[1, 1, 1, 1], ceil_mode=1, count_include_pad=1)
    m.add("pool_same", "QLinearAveragePool", [*image, F(.0147), U8(110)], kernel_shape=[3, 3], strides=[2, 2],
          auto_pad="SAME_LOWER")
    m.add("pool_no_zero_point", "QLinearAveragePool", [*signed, F(.0193)], kernel_shape=[7, 6])
    m.add("mean", "QLinearGlobalAveragePool", [*image, F(.00307), U8(128)], channels_last=0)
    m.add("mean_signed", "QLinearGlobalAveragePool", [*signed, F(.00307), I8(0)])
    m.add("mean_last", "QLinearGlobalAveragePool", [*last, F(.00307), U8(128)], channels_last=1)
    m.add("concat", "QLinearConcat", [F(.0389), U8(31), *image, *other, "image", F(.0389), U8(31)], axis=1)
    m.add("concat_signed", "QLinearConcat", [F(.0311), I8(-5), *signed, *signed], axis=-2)
    rows, signed_rows = ("rows", F(.0193), U8(120)), ("signed_rows", F(.0311), I8(-5))
    weights, scales = random_bytes(I8, 17, 9), RANDOM.uniform(.002, .01, 9).astype(F)
    sums = RANDOM.integers(-9000, 9000, 9).astype(numpy.int32)
    m.add("gemm", "QGemm", [*rows, weights, F(.00973), I8(0), sums, F(.3071), U8(99)])
    m.add("gemm_columns", "QGemm", [*rows, weights.T.copy(), scales, numpy.zeros(9, I8), sums, F(.1531), U8(140)], transB=1)
    m.add("gemm_zero_points", "QGemm", [*rows, random_bytes(U8, 17, 9), scales, random_bytes(U8, 9) // 2 + 64, None,
                                        F(.1531), U8(140)])
    m.add("gemm_signed", "QGemm", [*signed_rows, weights, scales, numpy.zeros(9, I8), sums[None], F(.2063), I8(7)])
    m.add("gemm_alpha", "QGemm", ["columns", F(.0193), U8(120), weights, F([.01]), I8([3]), sums, F(.1031), U8(99)], alpha=.25,
          transA=1)
    m.add("gemm_floats", "QGemm", [*rows, weights, scales, numpy.zeros(9, I8), sums[:5, None]])
    return m.model(), m.inputs


def network():
    """Bytes leave it, so that a difference is counted in steps."""
    model = mobile_network(width=4, size=32, seed=3)
    image = [RANDOM.standard_normal((1, 3, 32, 32)).astype(F) for _ in range(9)]
    quantize(model, OUT / "network.onnx", [{"image": sample} for sample in image[:8]])
    model = onnx.load(OUT / "network.onnx")
    last = model.graph.node[-1]
    assert last.op_type == "DequantizeLinear"
    model.graph.node.remove(last)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info(last.input[0], TensorProto.UINT8, [1, 10]))
    for node in model.graph.node:
        if node.op_type in ("QLinearAdd", "QLinearMul", "QLinearConcat"):
            model.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
    return model, {"image": image[8]}


def main():
    OUT.mkdir(exist_ok=True)
    for name, (model, inputs) in {"ops": single_ops(), "network": network()}.items():
        for field in ("producer_name", "producer_version", "doc_string"):
            model.ClearField(field)
        onnx.save(model, OUT / f"{name}.onnx")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(OUT / f"{name}.onnx", options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        results = dict(zip(names, session.run(names, inputs)))
        for key, value in {**inputs, **results}.items():
            print(name, key, value.dtype, value.shape)
        numpy.savez_compressed(OUT / f"{name}_inputs.npz", **inputs)
        numpy.savez_compressed(OUT / f"{name}_outputs.npz", **results)


if __name__ == "__main__":
    main()
