/* masks.h - an output for masks of class numbers */
#ifndef MASKS_H
#define MASKS_H

/* An output of class numbers, as the header shows it. */
static inline bzna_loader_output mask_of(const char *name, const char *field)
{
    static const bzna_loader_filter nearest = { .kind = BZNA_FILTER_NEAREST };
    static const bzna_loader_color as_they_are = { .fill = { 0 } };
    return (bzna_loader_output){ .name = name, .field = field, .dtype = BZNA_DTYPE_UINT8,
                                 .channels = BZNA_CHANNELS_GRAY, .palette = BZNA_PALETTE_INDEX, .filter = &nearest,
                                 .color = &as_they_are };
}

#endif
