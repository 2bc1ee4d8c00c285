#include "common/base/crc32c.h"
