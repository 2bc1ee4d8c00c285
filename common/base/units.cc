#include "common/base/units.h"
