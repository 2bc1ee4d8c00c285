#include "common/base/histogram.h"
