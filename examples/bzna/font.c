/* font.c - text in pictures, in a bitmap font of 5x8 pixels */
#include "tool.h"

#include <string.h>

/* Each character from ' ' to '~': eight rows, the last one below the line. A row is five pixels, leftmost first, as one
 * digit of base 32: V is all of them, G the leftmost, 1 the rightmost. */
static const char glyphs[][9] = {
    "00000000", "44444040", "AA000000", "AAVAVAA0", "4FKE5U40", "OP248J30", "CIK8LID0", "44000000",
    "24888420", "84222480", "04LEL400", "044V4400", "00000C48", "000V0000", "00000CC0", "01248G00",
    "EHJLPHE0", "4C4444E0", "EH1248V0", "V2421HE0", "26AIV220", "VGU11HE0", "68GUHHE0", "V1248880",
    "EHHEHHE0", "EHHF12C0", "0CC0CC00", "0CC0C480", "248G8420", "00V0V000", "84212480", "EH124040",
    "EH1DLLE0", "EHHVHHH0", "UHHUHHU0", "EHGGGHE0", "SIHHHIS0", "VGGUGGV0", "VGGUGGG0", "EHGNHHF0",
    "HHHVHHH0", "E44444E0", "72222IC0", "HIKOKIH0", "GGGGGGV0", "HRLLHHH0", "HHPLJHH0", "EHHHHHE0",
    "UHHUGGG0", "EHHHLID0", "UHHUKIH0", "FGGE11U0", "V4444440", "HHHHHHE0", "HHHHHA40", "HHHLLLA0",
    "HHA4AHH0", "HHHA4440", "V1248GV0", "E88888E0", "0G842100", "E22222E0", "4AH00000", "0000000V",
    "84200000", "00E1FHF0", "GGMPHHU0", "00EGGHE0", "11DJHHF0", "00EHVGE0", "698S8880", "00FHHF1E",
    "GGMPHHH0", "40C444E0", "206222IC", "GGIKOKI0", "C44444E0", "00QLLHH0", "00MPHHH0", "00EHHHE0",
    "00UHHUGG", "00FHHF11", "00MPGGG0", "00FGE1U0", "88S88960", "00HHHJD0", "00HHHA40", "00HHLLA0",
    "00HA4AH0", "00HHHF1E", "00V248V0", "24484420", "44444440", "84424480", "008L2000",
};

static int glyph_pixel(char c, uint32_t column, uint32_t row)
{
    size_t i = (unsigned char)c - (size_t)' ';
    char digit = glyphs[i < LENGTH(glyphs) ? i : '?' - ' '][row];
    return (digit <= '9' ? digit - '0' : digit - 'A' + 10) >> (4 - column) & 1;
}

void tool_rgb_rectangle(tool_rgb *dst, uint32_t x, uint32_t y, uint32_t width, uint32_t height, tool_color color)
{
    for (uint32_t row = y; row < y + height && row < dst->height; row++)
        for (uint32_t column = x; column < x + width && column < dst->width; column++)
            memcpy(dst->pixels + ((size_t)row * dst->width + column) * 3, color.rgb, 3);
}

void tool_rgb_text(tool_rgb *dst, uint32_t x, uint32_t y, uint32_t scale, tool_color color, const char *text)
{
    for (; *text; text++, x += TOOL_GLYPH_WIDTH * scale)
        for (uint32_t row = 0; row < 8; row++)
            for (uint32_t column = 0; column < 5; column++)
                if (glyph_pixel(*text, column, row))
                    tool_rgb_rectangle(dst, x + column * scale, y + row * scale, scale, scale, color);
}
