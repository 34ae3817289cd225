/* error.h - the text that goes with a negative errno.
 *
 * Library code never prints: it returns 0 or -errno and leaves one clear
 * sentence in a struct gs_error given by the caller.
 */
#ifndef GS_ERROR_H
#define GS_ERROR_H

#define GS_ERROR_SIZE 512

/* One sentence: what, where, what is allowed, what to do. Always terminated. */
struct gs_error {
    char text[GS_ERROR_SIZE];
};

#endif
