#include "module.hpp"

void bind_designs(nanobind::module_ &) {}
