#define LEVELPROX_TABLE simd_avx512
#define LEVELPROX_TABLE_NAME "avx512"
#include "simd/simd.inl"
