#include "common/base/json_writer.h"
