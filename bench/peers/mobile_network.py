"""A convolutional network in the manner of MobileNetV2, built with the package onnx and seeded weights: inverted
bottlenecks with sums, gates (global mean, Sigmoid, product), LeakyRelu, mean pooling, a concatenation and a product at the
end. Quantized by ONNX Runtime as QuantFormat.QOperator it holds each of its operators."""
import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static


class Builder:
    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)
        self.nodes, self.constants, self.channels = [], [], {}

    def constant(self, value):
        self.constants.append(numpy_helper.from_array(value, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def weights(self, *shape):
        fan_in = numpy.prod(shape[1:])
        return self.constant((self.random.standard_normal(shape) * numpy.sqrt(2 / fan_in)).astype(numpy.float32))

    def op(self, kind, inputs, channels, **attributes):
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        self.channels[name] = channels
        return name

    def conv(self, x, out, kernel=1, stride=1, group=1):
        pad = kernel // 2
        bias = self.constant((self.random.standard_normal(out) * 0.2).astype(numpy.float32))
        return self.op("Conv", [x, self.weights(out, self.channels[x] // group, kernel, kernel), bias], out,
                       kernel_shape=[kernel, kernel], strides=[stride, stride], pads=[pad] * 4, group=group)

    def relu6(self, x):
        limits = [self.constant(numpy.float32(0)), self.constant(numpy.float32(6))]
        return self.op("Clip", [x, *limits], self.channels[x])

    def bottleneck(self, x, out, stride=1, factor=2, gate=False):
        wide = factor * self.channels[x]
        y = self.relu6(self.conv(x, wide))
        y = self.relu6(self.conv(y, wide, 3, stride, wide))
        if gate:
            mean = self.op("GlobalAveragePool", [y], wide)
            y = self.op("Mul", [y, self.op("Sigmoid", [self.conv(mean, wide)], wide)], wide)
        y = self.conv(y, out)
        return self.op("Add", [x, y], out) if stride == 1 and out == self.channels[x] else y


def mobile_network(width=16, size=96, seed=1):
    """A ModelProto with input "image" [1, 3, size, size], size a multiple of 8, and output "scores" [1, 10]."""
    b = Builder(seed)
    b.channels["image"] = 3
    x = b.relu6(b.conv("image", width, 3, 2))
    x = b.bottleneck(x, width, gate=True)
    x = b.bottleneck(x, 2 * width, 2)
    x = b.bottleneck(x, 2 * width)
    leaky = b.op("LeakyRelu", [b.conv(x, width)], width, alpha=0.1)
    means = b.op("AveragePool", [x], 2 * width, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    largest = b.op("MaxPool", [leaky], width, kernel_shape=[2, 2], strides=[2, 2])
    x = b.conv(b.op("Concat", [means, largest], 3 * width, axis=1), 2 * width)
    x = b.op("Flatten", [b.op("GlobalAveragePool", [x], 2 * width)], 2 * width)
    bias = b.constant(b.random.standard_normal(10).astype(numpy.float32))
    b.nodes.append(helper.make_node("Gemm", [x, b.weights(10, 2 * width), bias], ["scores"], "scores", transB=1))
    graph = helper.make_graph(b.nodes, "mobile", [helper.make_tensor_value_info("image", TensorProto.FLOAT,
                                                                                [1, 3, size, size])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])], b.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model


class Samples(CalibrationDataReader):
    def __init__(self, samples):
        self.rest = iter(samples)

    def get_next(self):
        return next(self.rest, None)


def quantize(model, out, samples, per_channel=True, signed=False):
    """Writes `model` (a path or ModelProto) with ONNX Runtime's own operators on bytes to `out`; `samples` are
    dictionaries of inputs."""
    kind = QuantType.QInt8 if signed else QuantType.QUInt8
    quantize_static(model, str(out), Samples(samples), quant_format=QuantFormat.QOperator, per_channel=per_channel,
                    activation_type=kind, weight_type=QuantType.QInt8)
