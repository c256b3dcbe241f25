// Python types in the signatures that nanobind cannot derive from the C++ ones (nb::sig), for the generated stub.
#pragma once

#define FLOAT64_ARRAY "numpy.typing.NDArray[numpy.float64]"
#define UINT8_ARRAY "numpy.typing.NDArray[numpy.uint8]"
#define INT64_ARRAY "numpy.typing.NDArray[numpy.int64]"
#define FLOAT_ARRAY "numpy.typing.NDArray[numpy.floating[typing.Any]]"       // float32 or float64
#define INT_ARRAY "numpy.typing.NDArray[numpy.signedinteger[typing.Any]]"    // int32 or int64
#define COMPRESSED "tuple[" FLOAT_ARRAY ", " INT_ARRAY ", " INT64_ARRAY "]"  // data, indices, indptr
