#include "module.hpp"

void bind_projection(nanobind::module_ &) {}
