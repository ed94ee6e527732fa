/* options.c - a command's options: reading them, showing them */
#include "tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void print_usage(FILE *file, const command *c)
{
    fprintf(file, "usage: bzna %s%s%s [options]\n", c->name, c->operand_count ? " " : "", c->operands);
}

static void print_help(const command *c)
{
    print_usage(stdout, c);
    printf("\n%s\n\noptions:\n", c->help);
    for (const option *p = c->options; p->name; p++) {
        char left[96];
        char letter[8] = "";
        if (p->letter) snprintf(letter, sizeof letter, "-%c, ", p->letter);
        snprintf(left, sizeof left, "%s--%s%s%s", letter, p->name, p->argument ? " " : "", p->argument ? p->argument : "");
        printf("  %-34s%s %s", left, strlen(left) > 33 ? "\n                                    " : "", p->help);
        if (p->fallback) printf(" (default %s)", p->fallback);
        putchar('\n');
    }
    printf("  %-34s %s\n", "-h, --help", "show this");
}

int usage_error(const command *c, const char *format, ...)
{
    va_list arguments;
    fputs("bzna: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    print_usage(stderr, c);
    fprintf(stderr, "`bzna %s --help` says more\n", c->name);
    return EXIT_USAGE;
}

/* Whether word is one of "a|b|c". */
int is_choice(const char *choices, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = choices; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (!strncmp(at, word, length) && (at[length] == 0 || at[length] == '|')) return length > 0;
    }
    return 0;
}

/* Sets one option. Returns what was expected instead, or NULL. */
static const char *option_set(const option *p, options *o, const char *value)
{
    char *field = (char *)o + p->offset, *end = NULL;
    errno = 0;
    switch (p->kind) {
    case KIND_FLAG:
        memcpy(field, &(int64_t){ 1 }, sizeof(int64_t));
        return NULL;
    case KIND_INTEGER: {
        int64_t number = strtoll(value, &end, 10);
        if (end == value || *end || errno || (double)number < p->lo || (double)number > p->hi) return "an integer";
        memcpy(field, &number, sizeof number);
        return NULL;
    }
    case KIND_REAL: {
        double number = strtod(value, &end);
        if (end == value || *end || !(number >= p->lo && number <= p->hi)) return "a number";
        memcpy(field, &number, sizeof number);
        return NULL;
    }
    case KIND_DEVICE: {                                       /* as bzna_context_config has it: n + 1 for device n */
        int64_t number = strtoll(value, &end, 10);
        if (!strcmp(value, "auto"))     number = BZNA_DEVICE_AUTO;
        else if (!strcmp(value, "cpu")) number = BZNA_DEVICE_CPU;
        else if (end == value || *end || errno || number < 0 || number > 65535) return p->argument;
        else                            number++;
        memcpy(field, &number, sizeof number);
        return NULL;
    }
    case KIND_CHOICE:
        if (!is_choice(p->argument, value)) return p->argument;
        break;
    case KIND_TEXT:
        if (!*value) return "a text";
        break;
    }
    memcpy(field, &value, sizeof value);
    return NULL;
}

/* The option that an argument names; *value is set when it carries its value along ("--crf=20"). */
static const option *option_find(const command *c, const char *argument, const char **value)
{
    *value = NULL;
    for (const option *p = c->options; p->name; p++) {
        size_t length = strlen(p->name);
        if (argument[1] != '-') {
            if (p->letter && argument[1] == p->letter && !argument[2]) return p;
        } else if (!strncmp(argument + 2, p->name, length) && (argument[2 + length] == 0 || argument[2 + length] == '=')) {
            if (argument[2 + length] == '=') *value = argument + 2 + length + 1;
            return p;
        }
    }
    return NULL;
}

/* Reads a command's arguments into *o. Returns 0 to go on, 1 after showing help, or -1 after complaining. */
int options_parse(const command *c, int count, char **arguments, options *o)
{
    int only_operands = 0;
    memset(o, 0, sizeof *o);
    for (const option *p = c->options; p->name; p++)
        if (p->fallback && p->kind != KIND_FLAG) option_set(p, o, p->fallback);
    for (int i = 0; i < count; i++) {
        const char *argument = arguments[i], *value;
        if (only_operands || argument[0] != '-' || !argument[1]) {
            if (o->operands == c->operand_count) return usage_error(c, "one argument too many: \"%s\"", argument), -1;
            o->operand[o->operands++] = argument;
            continue;
        }
        if (!strcmp(argument, "--")) { only_operands = 1; continue; }
        if (!strcmp(argument, "--help") || !strcmp(argument, "-h")) { print_help(c); return 1; }
        const option *p = option_find(c, argument, &value);
        if (!p) return usage_error(c, "unknown option \"%s\"", argument), -1;
        if (p->kind == KIND_FLAG && value) return usage_error(c, "--%s takes no value", p->name), -1;
        if (p->kind != KIND_FLAG && !value) {
            if (++i == count) return usage_error(c, "--%s wants a value: %s", p->name, p->argument), -1;
            value = arguments[i];
        }
        const char *expected = option_set(p, o, value);
        if (expected && p->hi > p->lo)
            return usage_error(c, "--%s wants %s from %.15g to %.15g, not \"%s\"", p->name, expected, p->lo, p->hi, value), -1;
        if (expected) return usage_error(c, "--%s wants %s, not \"%s\"", p->name, expected, value), -1;
    }
    if (o->operands < c->operand_count) return usage_error(c, "too few arguments"), -1;
    return 0;
}
