#include "common/base/utf8.h"
