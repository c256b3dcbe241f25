#define LEVELPROX_TABLE simd_avx2
#define LEVELPROX_TABLE_NAME "avx2"
#include "simd/simd.inl"
