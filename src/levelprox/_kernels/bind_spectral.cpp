#include "module.hpp"

void bind_spectral(nanobind::module_ &) {}
