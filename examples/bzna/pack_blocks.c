/* pack_blocks.c - samples and their lines of the log, on their way to the disk
 *
 * Where pictures are encoded, every sample is written at once, and then its line: writing takes no time beside
 * encoding. Where the bytes of files are kept as they are, reading and writing take all the time. Then samples and
 * lines are gathered in a block, which a thread writes while the next one is gathered. Either way a sample is written
 * before its line, and in the order of the files. A run that is killed loses two blocks at most, which --resume packs
 * again. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Large writes cost the system less for each byte, and a block that fits a processor's cache costs less to gather. */
enum { BLOCK_BYTES = 1 << 20 };

/* ---- writing ---- */

static int write_all_at(int file, const uint8_t *src, uint64_t size, uint64_t offset)
{
    for (uint64_t done = 0; done < size;) {
        ssize_t put = pwrite(file, src + done, (size_t)(size - done), (off_t)(offset + done));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return put < 0 ? errno : ENOSPC;
        done += (uint64_t)put;
    }
    return 0;
}

/* Writes a block. The disk begins at once, so that the end of the run waits for the last blocks only. */
static void block_write(void *given)
{
    pack_block *b = given;
    if ((b->error = write_all_at(b->archive, b->samples.data, b->size, b->offset))) return;
    os_write_back(b->archive, (off_t)b->offset, (off_t)b->size);
    if ((b->error = tool_write_all(b->log, b->lines.data, b->lines_size))) b->is_log = 1;
}

/* Takes over the outcome of the block that is being written. Returns 0, or errno. */
static int blocks_wait(pack_blocks *b)
{
    if (!b->is_writing) return b->error;
    os_thread_join(&b->thread);
    b->is_writing = 0;
    b->error = b->list[!b->filling].error;
    b->is_log = b->list[!b->filling].is_log;
    return b->error;
}

/* Hands the gathered block over, and begins the other. */
static int blocks_turn(pack_blocks *b)
{
    pack_block *full = &b->list[b->filling];
    if (blocks_wait(b)) return b->error;
    if (!full->size && !full->lines_size) return 0;
    full->archive = b->archive;
    full->log = b->log;
    if (os_thread_start(&b->thread, block_write, full)) block_write(full), b->error = full->error;
    else                                                b->is_writing = 1;
    b->is_log = full->is_log;
    b->filling = !b->filling;
    b->list[b->filling].size = b->list[b->filling].lines_size = 0;
    return b->error;
}


/* ---- samples and lines ---- */

/* Makes room for some more bytes, and for as many again, so that adding does not copy each time. */
static void reserve_more(tool_buffer *buffer, uint64_t used, uint64_t more)
{
    if (more > UINT64_MAX / 4 || used > UINT64_MAX / 4) exit(tool_error("out of memory"));
    if (used + more > buffer->size) tool_buffer_reserve(buffer, 2 * (used + more));
}

int pack_blocks_sample(pack_blocks *b, uint64_t offset, const void *src, uint64_t size)
{
    pack_block *block = &b->list[b->filling];
    if (b->error) return b->error;
    if (!b->is_gathering) return b->error = write_all_at(b->archive, src, size, offset);
    if (block->size && (block->size + size > BLOCK_BYTES || block->offset + block->size != offset)) {
        if (blocks_turn(b)) return b->error;
        block = &b->list[b->filling];
    }
    if (!block->size) block->offset = offset;
    if (block->size + size > block->samples.size)
        tool_buffer_reserve(&block->samples, size > BLOCK_BYTES ? size : BLOCK_BYTES);
    memcpy(block->samples.data + block->size, src, (size_t)size);
    block->size += size;
    return 0;
}

int pack_blocks_line(pack_blocks *b, const char *line)
{
    pack_block *block = &b->list[b->filling];
    size_t size = strlen(line);
    if (b->error) return b->error;
    if (!b->is_gathering) {
        b->error = tool_write_all(b->log, line, size);
        b->is_log = b->error != 0;
        return b->error;
    }
    reserve_more(&block->lines, block->lines_size, size);
    memcpy(block->lines.data + block->lines_size, line, size);
    block->lines_size += size;
    return 0;
}

int pack_blocks_end(pack_blocks *b)
{
    if (!blocks_turn(b)) blocks_wait(b);
    b->is_gathering = 0;
    return b->error;
}

void pack_blocks_free(pack_blocks *b)
{
    blocks_wait(b);
    for (size_t i = 0; i < LENGTH(b->list); i++) {
        free(b->list[i].samples.data);
        free(b->list[i].lines.data);
    }
}
