/* number.c - strict reading of decimal numbers; see number_private.h. */
#include "number_private.h"

size_t gs_digits_count(const char *text, size_t len)
{
    size_t n = 0;

    while (n < len && text[n] >= '0' && text[n] <= '9')
        n++;
    return n;
}

bool gs_number_read(const char *text, size_t len, uint64_t max, uint64_t *ret_number)
{
    uint64_t number = 0;

    if (len == 0 || gs_digits_count(text, len) != len)
        return false;
    for (size_t i = 0; i < len; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');

        if (digit > max || number > (max - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *ret_number = number;
    return true;
}
