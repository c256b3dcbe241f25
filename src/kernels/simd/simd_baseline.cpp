#define LEVELPROX_TABLE simd_baseline
#define LEVELPROX_TABLE_NAME "baseline"
#include "simd/simd.inl"
