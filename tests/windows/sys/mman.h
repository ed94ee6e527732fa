#include "../../windows.h"
