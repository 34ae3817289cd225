/* print.h - what gangstart-probe writes to its standard outputs. */
#ifndef GS_PROBE_PRINT_H
#define GS_PROBE_PRINT_H

/* Prints a line (as gs_gpu_line() makes it; freed here) and flushes it, so that nothing
 * that was read is lost if the next query hangs. NULL ends the program: no memory. */
void gs_probe_print_line(char *line);

/* Says why it cannot go on, as a line of JSON and on stderr; returns code. */
int gs_probe_complain(int code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
