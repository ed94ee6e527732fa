#include "../windows.h"
