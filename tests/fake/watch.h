/* watch.h - what suites on the fake driver share: each test begins with fake_begin and ends with fake_finish, when its
 * contexts are closed. The library's self-check is off, but where a test has it on. Include after benzina.c and
 * test.h. */
#ifndef BENZINA_FAKE_WATCH_H
#define BENZINA_FAKE_WATCH_H
#include "fake.h"

static const fake_interface *fake;
static fake_control *control;
static const char *test_now = "";

/* What hangs is ended, and named. */
static void on_alarm(int number)
{
    (void)number;
    if (write(1, "FAIL hangs: ", 12) + write(1, test_now, strlen(test_now)) + write(1, "\n", 1) < 0)
        _exit(3);
    _exit(2);
}

static void fake_begin(const char *name, unsigned seconds)
{
    test_now = name;
    alarm(EMULATED ? 10 * seconds : seconds);
}

/* A pop that was made to fail leaves its context current on this thread. */
static void clear_stack(void)
{
    CUresult (*current)(CUcontext *context), (*pop)(CUcontext *context);
    CUcontext context = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL),
         *symbols[2] = { dlsym(library, "cuCtxGetCurrent"), dlsym(library, "cuCtxPopCurrent_v2") };
    memcpy(&current, &symbols[0], sizeof current);
    memcpy(&pop, &symbols[1], sizeof pop);
    control->lost_push = 0;
    while (current(&context) == CUDA_SUCCESS && context)
        pop(&context);
}

static void fake_finish(void)
{
    const char *leaks = fake->leaks();
    clear_stack();
    if (control->violations)
        printf("  the first violation: %s\n", fake->violation());
    CHECK_EQ(control->violations, 0);
    CHECK_EQ(control->fork_calls, 0);
    if (leaks) {
        printf("FAIL %s: still alive: %s\n", test_now, leaks);
        exit(1);
    }
    fake->reset();
    alarm(0);
}

/* Before the first test that is on the fake. */
static void fake_setup(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    setvbuf(stdout, NULL, ON_WINDOWS ? _IONBF : _IOLBF, 0);
    setenv("BENZINA_NVDEC_CHECK", "0", 1);                  /* its calls are not those that these suites count */
    fake = fake_load();
    control = fake->control;
}

/* Messages of the library's log. */
typedef struct messages { int count; char text[16][256]; } messages;

__attribute__((unused)) static void take_message(void *user, int32_t level, bzna_status code, const char *message)
{
    messages *m = user;
    (void)level;
    (void)code;
    if (m->count < 16)
        snprintf(m->text[m->count], sizeof m->text[0], "%s", message);
    m->count++;
}
#endif
