/* number_private.h - strict reading of decimal numbers, for C only.
 *
 * strtoul() skips blanks, takes signs and wraps silently; a number here is one or
 * more decimal digits and nothing else.
 */
#ifndef GS_NUMBER_PRIVATE_H
#define GS_NUMBER_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many of the characters at text, of at most len, are decimal digits. */
size_t gs_digits_count(const char *text, size_t len);

/* The number written in the len characters at text, at most max. True and
 * *ret_number set, or false (not a number, or too large) and *ret_number kept. */
bool gs_number_read(const char *text, size_t len, uint64_t max, uint64_t *ret_number);

#endif
