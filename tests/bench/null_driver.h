/* null_driver.h - what calls of the null driver cost, for bench_sessions.c: at first nothing. With a scale, the
 * driver behaves as a device would that has one lock a context, video engines and streams, all of them so many times
 * slower than written here: threads then mostly sleep, so that two processors are enough for a device of seven
 * engines. No thread does any work: what is asked for gets the time at which it will be done, and who waits sleeps
 * until then. */
#ifndef BENZINA_NULL_DRIVER_H
#define BENZINA_NULL_DRIVER_H
#include <stdatomic.h>

typedef struct null_model {
    double scale;                     /* real time / the model's; 0: everything takes no time */
    double lock_us;                   /* each call holds its context's lock for so long */
    double picture_us, kilobyte_us;   /* an engine takes so long for a picture, and for each kilobyte of it */
    double macroblock_us;             /* and for each 16 x 16 pixels of it */
    double copy_us, slot_us;          /* stream work: of a map, and of each picture of a launch */
    double sm_period_us, sm_busy_us;  /* in each period, the program keeps the device busy for so long: streams wait */
    int    engines;                   /* 0: 7 */
    int    dynamic;                   /* 0: a decoder has one engine, by turns; 1: each picture takes the first one */
    int    surface_waits;             /* a picture is decoded into a surface only when its last one has been copied */
    int    spins;                     /* the context is another library's, in which calls that wait spin */
    /* Counted: calls that take the lock; pictures; waiting in maps and in other calls, ns of the model. */
    atomic_llong calls, pictures, map_ns;
} null_model;

/* libcuda.so.1 exports it. NULL_MODEL="SCALE PICTURE_US KILOBYTE_US MACROBLOCK_US" in the environment sets these. With
 * NULL_VIRTUAL, too, nobody sleeps: a clock of the driver's own goes on instead, which null_now tells. For callers of
 * one thread, whose measurements are then exact however busy the machine is. */
extern null_model null_model_state;
#endif
