/* output.c - JSON, text from files, four-character codes, PPM */
#include "tool.h"

#include <errno.h>
#include <string.h>

/* Length of the UTF-8 sequence at text, or 0 if it is not one. */
static int utf8_length(const unsigned char *text)
{
    int length = text[0] < 0x80 ? 1 : text[0] >= 0xC2 && text[0] < 0xE0 ? 2 : (text[0] & 0xF0) == 0xE0 ? 3 :
                 text[0] >= 0xF0 && text[0] < 0xF5 ? 4 : 0;
    for (int i = 1; i < length; i++)
        if ((text[i] & 0xC0) != 0x80) return 0;
    if (length == 3 && ((text[0] == 0xE0 && text[1] < 0xA0) || (text[0] == 0xED && text[1] > 0x9F))) return 0;
    if (length == 4 && ((text[0] == 0xF0 && text[1] < 0x90) || (text[0] == 0xF4 && text[1] > 0x8F))) return 0;
    return length;
}

/* A JSON string, or null for NULL. What is not UTF-8 becomes U+FFFD. */
void json_string(const char *text)
{
    if (!text) { fputs("null", stdout); return; }
    putchar('"');
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        int length = utf8_length(at);
        if (!length)                        fputs("\\ufffd", stdout);
        else if (*at == '"' || *at == '\\') printf("\\%c", *at);
        else if (*at < 0x20 || *at == 0x7F) printf("\\u%04x", *at);
        else                                fwrite(at, 1, (size_t)length, stdout);
        at += length ? length : 1;
    }
    putchar('"');
}

/* Text from a file for a person to read: control characters must not reach the terminal. */
void print_plain(FILE *file, const char *text)
{
    for (; *text; text++) fputc((unsigned char)*text < 0x20 || *text == 0x7F ? '?' : *text, file);
}

fourcc_text fourcc(uint32_t code)
{
    fourcc_text result = { { 0 } };
    for (int i = 0; i < 4; i++) {
        uint32_t c = code >> (24 - 8 * i) & 0xFF;
        result.text[i] = (char)(c >= 0x20 && c < 0x7F ? c : '?');
    }
    return result;
}

int output_open(output *out, const char *path)
{
    out->path = path;
    out->file = fopen(path, "wb");
    return out->file ? EXIT_OK : complain("%s: cannot be written: %s", path, strerror(errno));
}

int output_close(output *out)
{
    int failed = ferror(out->file);
    errno = 0;
    if (fclose(out->file) || failed) return complain("%s: cannot be written: %s", out->path, errno ? strerror(errno) : "write error");
    return EXIT_OK;
}

/* Three planes of floats, 0..255, into 8-bit RGB. */
void rgb_from_planes(const float *planes, uint32_t width, uint32_t height, uint8_t *rgb, size_t pitch)
{
    size_t area = (size_t)width * height;
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < 3; c++) {
                float value = planes[c * area + (size_t)y * width + x];
                rgb[y * pitch + 3 * x + c] = (uint8_t)(value >= 255.f ? 255 : value > 0.f ? (int)(value + 0.5f) : 0);
            }
}

int ppm_write(const char *path, const uint8_t *rgb, uint32_t width, uint32_t height)
{
    output out;
    if (output_open(&out, path)) return EXIT_INPUT;
    fprintf(out.file, "P6\n%" PRIu32 " %" PRIu32 "\n255\n", width, height);
    fwrite(rgb, 3, (size_t)width * height, out.file);
    return output_close(&out);
}
