/* test.h - the smallest test frame: each test is a function; a binary prints one line a failure and "N passed, N
 * failed, N skipped" last. Given arguments, it runs the tests that are named so, or begin so, or are named exactly so
 * after "=". Given --alone first, it runs each of them in a process of its own: what no other test has made ready.
 * With TEST_TIMES in the environment, it says how many seconds of processors each test took.
 *
 * TEST(a_sentence_that_it_proves) { CHECK(1 + 1 == 2); CHECK_EQ(f(x), 3); CHECK_STR(name, "a"); if (!gpu) SKIP("no
 * GPU"); }
 *     TEST_MAIN(RUN(a_sentence_that_it_proves) RUN(...))
 *
 * A test that TEST_MAIN does not RUN is a function that nobody uses: it does not compile.
 */
#ifndef BENZINA_TEST_H
#define BENZINA_TEST_H
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#ifdef _WIN32
#  define ON_WINDOWS 1
#  include "../windows/windows.h"
#else
#  include <sys/wait.h>
#endif

#ifndef ON_WINDOWS
#  define ON_WINDOWS 0
#  define aligned_free(block) free(block)
#endif

#pragma GCC diagnostic error "-Wunused-function"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#  define SANITIZED 1                 /* locks and copies cost so much then that rates mean little */
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#    define SANITIZED 1
#  endif
#endif
#ifndef SANITIZED
#  define SANITIZED 0
#endif
/* How often what is drawn or repeated is tried: all with make test-all, few with make test and under a sanitizer. */
#define ROUNDS(all, few) (SANITIZED || !test_all() ? (few) : (all))
/* A limit that a sanitizer, or QEMU, makes longer. */
#define SLOWED(plain, slow) (SANITIZED || EMULATED ? (slow) : (plain))
/* What takes longer has hung, however busy the machine is. How fast something is, a benchmark says; how much work it
 * does, clock() says, or a counter. */
#ifdef TEST_EMULATED
#define EMULATED 1
#define HANG_NS 1000000000000u
#else
#define EMULATED 0
#define HANG_NS 100000000000u
#endif
#define COUNT(array) (sizeof (array) / sizeof *(array))

static int test_failures, test_passed, test_failed, test_skipped;
static const char *test_skip_reason;
static char **test_wanted;                    /* NULL: all */
static int test_alone;

#define TEST(name) static void test_##name(void)
#define CHECK(condition) do { if (!(condition)) { test_failures++; \
    printf("  %s:%d: %s\n", __FILE__, __LINE__, #condition); } } while (0)
#define CHECK_EQ(actual, expected)                                                                  \
    do {                                                                                            \
        long long test_a = (long long)(actual), test_e = (long long)(expected);                     \
        if (test_a != test_e) {                                                                     \
            test_failures++;                                                                        \
            printf("  %s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #actual, test_a, test_e); \
        }                                                                                           \
    } while (0)
#define CHECK_NEAR(actual, expected, tolerance)                                                       \
    do {                                                                                              \
        double test_a = (actual), test_e = (expected);                                                \
        if (!(fabs(test_a - test_e) <= (tolerance))) {                                                \
            test_failures++;                                                                          \
            printf("  %s:%d: %s is %.17g, not %.17g\n", __FILE__, __LINE__, #actual, test_a, test_e); \
        }                                                                                             \
    } while (0)
#define CHECK_STR(actual, expected)                                                                                \
    do {                                                                                                           \
        const char *test_a = (actual), *test_e = (expected);                                                       \
        if (!test_a || strcmp(test_a, test_e)) {                                                                   \
            test_failures++;                                                                                       \
            printf("  %s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #actual, test_a ? test_a : "(null)", \
                   test_e);                                                                                        \
        }                                                                                                          \
    } while (0)
#define CHECK_CONTAINS(actual, part)                                                                                   \
    do {                                                                                                               \
        const char *test_a = (actual), *test_e = (part);                                                               \
        if (!test_a || !strstr(test_a, test_e)) {                                                                      \
            test_failures++;                                                                                           \
            printf("  %s:%d: %s is \"%s\", without \"%s\"\n", __FILE__, __LINE__, #actual, test_a ? test_a : "(null)", \
                   test_e);                                                                                            \
        }                                                                                                              \
    } while (0)
#define REQUIRE(condition) do { if (!(condition)) { test_failures++; \
    printf("  %s:%d: %s\n", __FILE__, __LINE__, #condition); return; } } while (0)
#define SKIP(reason) do { test_skip_reason = (reason); return; } while (0)

__attribute__((unused)) static int test_all(void)
{
    const char *all = getenv("TEST_ALL");
    return all && *all;
}

static int test_is_wanted(const char *name)
{
    for (char **wanted = test_wanted; wanted && *wanted; wanted++)
        if (**wanted == '=' ? !strcmp(name, *wanted + 1) : !strncmp(name, *wanted, strlen(*wanted)))
            return 1;
    return !test_wanted;
}

/* What a program's arguments ask for. */
__attribute__((unused)) static void test_start(char **argv)
{
    test_alone = argv[1] && !strcmp(argv[1], "--alone");
    test_wanted = argv[1 + test_alone] ? argv + 1 + test_alone : NULL;
}

static void test_run_here(const char *name, void (*function)(void))
{
    const clock_t start = clock();
    test_failures = 0;
    test_skip_reason = NULL;
    function();
    if (getenv("TEST_TIMES"))
        printf("%8.2f s %s\n", (double)(clock() - start) / CLOCKS_PER_SEC, name);
    if (test_failures)         { test_failed++;  printf("FAIL %s\n", name); }
    else if (test_skip_reason) { test_skipped++; printf("SKIP %s: %s\n", name, test_skip_reason); }
    else                       { test_passed++; }
    fflush(stdout);
}

/* A copy of this process, in which no test has run, runs the test and ends with 0: passed, 1: failed, 2: skipped. */
static void test_run_alone(const char *name, void (*function)(void))
{
    int status = -1, end;
    const pid_t child = fork();
    if (child == 0) {
        test_passed = test_failed = test_skipped = 0;
        test_run_here(name, function);
        exit(test_failed ? 1 : test_skipped ? 2 : 0);
    }
    end = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    test_passed += end == 0;
    test_skipped += end == 2;
    test_failed += end != 0 && end != 2;
    if (end < 0 || end > 2)
        printf("FAIL %s: alone, its process fails\n", name);
    fflush(stdout);
}

static void test_run(const char *name, void (*function)(void))
{
    if (!test_is_wanted(name))
        return;
    fflush(stdout);
    (test_alone ? test_run_alone : test_run_here)(name, function);
}
#define RUN(name) test_run(#name, test_##name);
#define TEST_MAIN(runs)                                                                                          \
    int main(int argc, char **argv)                                                                              \
    {                                                                                                            \
        (void)argc;                                                                                              \
        test_start(argv);                                                                                        \
        runs printf("%s: %d passed, %d failed, %d skipped\n", __FILE__, test_passed, test_failed, test_skipped); \
        return test_failed != 0;                                                                                 \
    }
#endif
