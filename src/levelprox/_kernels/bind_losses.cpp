#include "module.hpp"

void bind_losses(nanobind::module_ &) {}
