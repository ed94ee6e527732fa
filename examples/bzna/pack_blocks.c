/* pack_blocks.c - samples and their lines of the log, on their way to the disk
 *
 * A block has samples, one behind the other as in the archive, and the files that are done with them. To write it is
 * to write the samples, and then a line for each of the files.
 *
 * Where pictures are encoded, a block is written as soon as a file is done: writing takes no time compared with
 * encoding. Where the bytes of files are kept as they are, reading and writing take all the time. Then many samples are
 * gathered in a block, and a thread writes the blocks that are full while the next one is gathered. Either way samples
 * are written in the order of the files. A run that is killed loses the blocks that are not written, a few MiB, which
 * --resume packs again. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Large writes cost the system less for each byte, and a block that fits a processor's cache costs less to gather. */
enum { BLOCK_BYTES = 1 << 20 };

/* ---- writing ---- */

static int write_all_at(int file, const void *src, uint64_t size, uint64_t offset)
{
    for (uint64_t done = 0; done < size;) {
        ssize_t put = pwrite(file, (const char *)src + done, (size_t)(size - done), (off_t)(offset + done));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return put < 0 ? errno : ENOSPC;
        done += (uint64_t)put;
    }
    return 0;
}

/* Makes the lines of a block's files. Returns their size. */
static size_t block_lines(pack_block *block)
{
    size_t size = 0;
    for (size_t i = 0; i < block->file_count; i++) {
        char *line = pack_journal_line(&block->files[i]);
        size_t length = strlen(line);
        if (size + length > block->lines.size) tool_buffer_reserve(&block->lines, 2 * (size + length));
        memcpy(block->lines.data + size, line, length);
        size += length;
        free(line);
    }
    return size;
}

/* Writes a block, and empties it. */
static pack_failure block_write(const pack_blocks *b, pack_block *block)
{
    int error = write_all_at(b->file, block->samples.data, block->size, block->offset);
    if (error) return (pack_failure){ error, 0 };
    /* The disk begins at once, so that the end of the run waits for the last blocks only. */
    if (b->gathers) os_write_back(b->file, (off_t)block->offset, (off_t)block->size);
    size_t lines = block_lines(block);      /* which may move them */
    error = tool_write_all(b->log, block->lines.data, lines);
    block->size = block->file_count = 0;
    return (pack_failure){ error, error != 0 };
}

/* The thread. After a failure, it writes nothing any more. */
static void blocks_write(void *given)
{
    pack_blocks *b = given;
    os_monitor_enter(&b->monitor);
    while (1) {
        while (b->written == b->gathered && !b->is_ending) os_monitor_wait(&b->monitor);
        if (b->written == b->gathered) break;
        pack_failure failure = b->failure;
        os_monitor_leave(&b->monitor);
        if (!failure.error) failure = block_write(b, &b->list[b->written % PACK_BLOCKS]);
        os_monitor_enter(&b->monitor);
        b->failure = failure;
        b->written++;
        os_monitor_wake(&b->monitor);
    }
    os_monitor_leave(&b->monitor);
}

/* Waits until the thread has at most so many blocks to write. */
static pack_failure blocks_wait(pack_blocks *b, uint64_t left)
{
    os_monitor_enter(&b->monitor);
    while (b->gathered - b->written > left) os_monitor_wait(&b->monitor);
    pack_failure failure = b->failure;
    os_monitor_leave(&b->monitor);
    return failure;
}

static pack_block *current(pack_blocks *b) { return &b->list[b->gathered % PACK_BLOCKS]; }

/* Hands the gathered block over, and waits for one to gather next. */
static pack_failure blocks_turn(pack_blocks *b)
{
    pack_block *full = current(b);
    int is_empty = !full->size && !full->file_count;
    if (!is_empty && b->has_thread) {
        os_monitor_enter(&b->monitor);
        b->gathered++;
        os_monitor_wake(&b->monitor);
        os_monitor_leave(&b->monitor);
    } else if (!is_empty && !b->failure.error) {
        b->failure = block_write(b, full);
    }
    return blocks_wait(b, PACK_BLOCKS - 1);
}


/* ---- samples and files ---- */

void pack_blocks_open(pack_blocks *b, int file, int log, int gathers)
{
    *b = (pack_blocks){ .file = file, .log = log, .gathers = gathers };
    os_monitor_init(&b->monitor);
    b->has_thread = gathers && !os_thread_start(&b->thread, blocks_write, b);
}

pack_failure pack_blocks_sample(pack_blocks *b, uint64_t offset, const void *src, uint64_t size)
{
    pack_block *block = current(b);
    pack_failure failure = { 0, 0 };
    if (block->size && (block->size + size > BLOCK_BYTES || block->offset + block->size != offset)) {
        failure = blocks_turn(b);
        block = current(b);
    }
    if (failure.error) return failure;
    if (!block->size) block->offset = offset;
    tool_buffer_reserve(&block->samples, b->gathers && size < BLOCK_BYTES ? BLOCK_BYTES : block->size + size);
    memcpy(block->samples.data + block->size, src, (size_t)size);
    block->size += size;
    return failure;
}

pack_failure pack_blocks_done(pack_blocks *b, const pack_file *file)
{
    pack_block *block = current(b);
    if (!block->file_count) block->files = file;
    block->file_count++;
    return b->gathers ? (pack_failure){ 0, 0 } : blocks_turn(b);
}

pack_failure pack_blocks_flush(pack_blocks *b)
{
    pack_failure failure = blocks_turn(b);
    return failure.error ? failure : blocks_wait(b, 0);
}

pack_failure pack_blocks_write(const pack_blocks *b, uint64_t offset, const void *src, uint64_t size)
{
    return (pack_failure){ write_all_at(b->file, src, size, offset), 0 };
}

void pack_blocks_close(pack_blocks *b)
{
    if (b->has_thread) {
        os_monitor_enter(&b->monitor);
        b->is_ending = 1;
        os_monitor_wake(&b->monitor);
        os_monitor_leave(&b->monitor);
        os_thread_join(&b->thread);
    }
    os_monitor_free(&b->monitor);
    for (size_t i = 0; i < PACK_BLOCKS; i++) {
        free(b->list[i].samples.data);
        free(b->list[i].lines.data);
    }
}
