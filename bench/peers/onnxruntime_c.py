"""ONNX Runtime through its C API, so that no time of Python's binding is counted.

The library that the Python package brings is called by ctypes. Of OrtApi, a table of functions whose order never changes,
the ones below are used.
"""
import ctypes
import pathlib
import time

import numpy
import onnxruntime

GET_ERROR_MESSAGE, CREATE_ENV, CREATE_SESSION, RUN, CREATE_SESSION_OPTIONS = 2, 3, 7, 9, 10
SET_LOG_SEVERITY, SET_OPTIMIZATION, SET_INTRA_THREADS, SET_INTER_THREADS = 22, 23, 24, 25
CREATE_TENSOR_WITH_DATA, CREATE_CPU_MEMORY_INFO = 49, 69
ENABLE_ALL, DEVICE_ALLOCATOR, DEFAULT_MEMORY, ERRORS_ONLY = 99, 0, 0, 3

ELEMENT_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
                 "float16": 10, "float64": 11, "uint32": 12, "uint64": 13}


class Api:
    def __init__(self):
        folder = pathlib.Path(onnxruntime.__file__).parent / "capi"
        library = ctypes.CDLL(str(next(folder.glob("libonnxruntime.so*"))))
        library.OrtGetApiBase.restype = ctypes.POINTER(ctypes.c_void_p * 2)
        get_api = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(library.OrtGetApiBase().contents[0])
        self.table = ctypes.cast(get_api(1), ctypes.POINTER(ctypes.c_void_p * 100)).contents

    def function(self, index, *types, returns=ctypes.c_void_p):
        return ctypes.CFUNCTYPE(returns, *types)(self.table[index])

    def check(self, status):
        if status:
            raise RuntimeError(self.function(GET_ERROR_MESSAGE, ctypes.c_void_p, returns=ctypes.c_char_p)(status)
                               .decode())

    def make(self, index, *arguments):
        """What a function hands out through its last argument, a pointer."""
        out = ctypes.c_void_p()
        values = [ctypes.c_void_p(a) if a is None else a for a in arguments]
        self.check(self.function(index, *[type(value) for value in values], ctypes.POINTER(ctypes.c_void_p))(
            *values, ctypes.byref(out)))
        return out


def pointers(values, kind=ctypes.c_void_p):
    return (kind * len(values))(*values)


class Session:
    """A model bound to arrays of the caller's: `inputs` and `outputs` by name, whose memory run() reads and writes."""

    def __init__(self, path, threads, inputs, outputs):
        self.api = api = Api()
        self.env = api.make(CREATE_ENV, ctypes.c_int(ERRORS_ONLY), ctypes.c_char_p(b"bench"))
        settings = api.make(CREATE_SESSION_OPTIONS)
        for setter, value in ((SET_LOG_SEVERITY, ERRORS_ONLY), (SET_OPTIMIZATION, ENABLE_ALL),
                              (SET_INTRA_THREADS, threads), (SET_INTER_THREADS, 1)):
            api.check(api.function(setter, ctypes.c_void_p, ctypes.c_int)(settings, value))
        self.session = api.make(CREATE_SESSION, self.env, ctypes.c_char_p(str(path).encode()), settings)
        self.memory = api.make(CREATE_CPU_MEMORY_INFO, ctypes.c_int(DEVICE_ALLOCATOR), ctypes.c_int(DEFAULT_MEMORY))
        self.arrays = list(inputs.values()) + list(outputs.values())
        values = [self.tensor(array).value for array in self.arrays]
        count = len(inputs)
        self.arguments = (self.session, None, pointers([name.encode() for name in inputs], ctypes.c_char_p),
                          pointers(values[:count]), ctypes.c_size_t(count),
                          pointers([name.encode() for name in outputs], ctypes.c_char_p),
                          ctypes.c_size_t(len(outputs)), pointers(values[count:]))
        self.function = api.function(RUN, *[ctypes.c_void_p] * 4, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t,
                                     ctypes.c_void_p)

    def tensor(self, array):
        shape = pointers(array.shape, ctypes.c_int64)
        return self.api.make(CREATE_TENSOR_WITH_DATA, self.memory, ctypes.c_void_p(array.ctypes.data),
                             ctypes.c_size_t(array.nbytes), shape, ctypes.c_size_t(array.ndim),
                             ctypes.c_int(ELEMENT_TYPES[array.dtype.name]))

    def run(self):
        self.api.check(self.function(*self.arguments))

    def time(self, runs):
        """Milliseconds of each run, less what ctypes takes for a call with as many arguments."""
        function, arguments, clock = self.function, self.arguments, time.perf_counter_ns
        times = numpy.empty(runs)
        for i in range(runs):
            start = clock()
            status = function(*arguments)
            times[i] = clock() - start
            if status:
                self.api.check(status)
        return numpy.maximum(times - call_cost_ns(arguments), 0) * 1e-6


def call_cost_ns(arguments, calls=2000):
    """The median time of an empty function called through ctypes with these arguments."""
    libc = ctypes.CDLL(None)
    # abs() looks at the first register alone.
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_void_p] * 4, ctypes.c_size_t, ctypes.c_void_p,
                                ctypes.c_size_t, ctypes.c_void_p)(ctypes.cast(libc.abs, ctypes.c_void_p).value)
    times = numpy.empty(calls)
    for i in range(calls):
        start = time.perf_counter_ns()
        function(*arguments)
        times[i] = time.perf_counter_ns() - start
    return float(numpy.median(times))
