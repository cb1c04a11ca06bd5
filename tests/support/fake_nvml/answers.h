/* What the double answers, and the list of what it was asked.
 *
 * The folder $FAKE_NVML holds two files, which the test changes while the library is in use (see
 * __init__.py). `answers` has a line for every question that has an answer:
 *
 *     WHO FUNCTION CODE [VALUE...]        gpu0 nvmlDeviceGetPowerUsage 0 512345
 *
 * WHO is `system`, `gpu<index>` or `gpu<index>.mig<index>`. FUNCTION may be followed by what is asked
 * for besides the device, as in `nvmlDeviceGetClockInfo:1`; without that, the line holds for whatever
 * is asked. CODE is what the function returns; after a 0 follow the values: numbers, or the rest of
 * the line as text. The function `*` stands for all functions of a device: with a code other than 0
 * the whole device fails. A question without a line is "not supported". `version` is a counter in
 * shared memory: when it has changed, the answers are read anew.
 *
 * Every call is appended to the file $FAKE_NVML_CALLS, if that is set, as `WHO FUNCTION`. */

enum { SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND = 6, INSUFFICIENT_SIZE,
       DRIVER_NOT_LOADED = 9, FUNCTION_NOT_FOUND = 13, GPU_IS_LOST = 15, VERSION_MISMATCH = 25 };

typedef unsigned long long Number;

/* Notes the call; returns its code, and on SUCCESS where the values are. `rest`: ":1" or "". */
int ask(const char *who, const char *function, const char *rest, char **values);

/* The same without noting it. */
int look_up(const char *who, const char *function, const char *rest, char **values);

void note_call(const char *who, const char *function);

/* The next number at `*values`; -1 is how NVML says "not available". */
Number next(char **values);
