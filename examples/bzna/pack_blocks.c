/* pack_blocks.c - samples and their lines of the log, on their way to the disk
 *
 * A block has samples, one behind the other as in the archive, and the files that are done with them. To write it is
 * to write the samples, and then a line for each of the files, with the checksum of its sample.
 *
 * Where pictures are encoded, a block is written as soon as a file is done: writing takes no time beside encoding.
 * Where the bytes of files are kept as they are, reading and writing take all the time. Then many samples are gathered
 * in a block, which a thread writes while the next one is gathered. Either way samples are written in the order of the
 * files. A run that is killed loses two blocks at most, which --resume packs again. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Large writes cost the system less for each byte, and threads for large blocks less for each block. */
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
        pack_file *file = &block->files[i];
        if (!file->reason)
            file->checksum = pack_sample_checksum(block->samples.data + (file->sample_offset - block->offset),
                                                  (size_t)file->sample_size);
        char *line = pack_journal_line(file);
        size_t length = strlen(line);
        if (size + length > block->lines.size) tool_buffer_reserve(&block->lines, 2 * (size + length));
        memcpy(block->lines.data + size, line, length);
        size += length;
        free(line);
    }
    return size;
}

static void block_write(void *given)
{
    pack_block *block = given;
    const pack_blocks *b = block->of;
    block->error = write_all_at(b->archive, block->samples.data, block->size, block->offset);
    if (block->error) return;
    /* The disk begins at once, so that the end of the run waits for the last blocks only. */
    if (b->gathers) os_write_back(b->archive, (off_t)block->offset, (off_t)block->size);
    size_t lines_size = block_lines(block);
    block->error = tool_write_all(b->log, block->lines.data, lines_size);
    block->is_log = block->error != 0;
}

/* Waits for the block that a thread writes. Returns 0, or errno. */
static int blocks_wait(pack_blocks *b)
{
    if (!b->is_writing) return b->error;
    os_thread_join(&b->thread);
    b->is_writing = 0;
    b->error = b->list[!b->filling].error;
    b->is_log = b->list[!b->filling].is_log;
    return b->error;
}

/* Hands the gathered block over, and begins the other one. */
static int blocks_turn(pack_blocks *b)
{
    pack_block *full = &b->list[b->filling], *next = &b->list[!b->filling];
    if (blocks_wait(b)) return b->error;
    if (!full->size && !full->file_count) return 0;
    full->of = b;
    b->filling = !b->filling;
    b->is_writing = b->gathers && !os_thread_start(&b->thread, block_write, full);
    if (!b->is_writing) {
        block_write(full);
        b->error = full->error;
        b->is_log = full->is_log;
    }
    next->size = next->file_count = 0;
    return b->error;
}


/* ---- samples and files ---- */

int pack_blocks_sample(pack_blocks *b, uint64_t offset, const void *src, uint64_t size)
{
    pack_block *block = &b->list[b->filling];
    if (b->error) return b->error;
    if (block->size && (block->size + size > BLOCK_BYTES || block->offset + block->size != offset)) {
        if (blocks_turn(b)) return b->error;
        block = &b->list[b->filling];
    }
    if (!block->size) block->offset = offset;
    tool_buffer_reserve(&block->samples, b->gathers && size < BLOCK_BYTES ? BLOCK_BYTES : block->size + size);
    memcpy(block->samples.data + block->size, src, (size_t)size);
    block->size += size;
    return 0;
}

int pack_blocks_done(pack_blocks *b, pack_file *file)
{
    pack_block *block = &b->list[b->filling];
    if (b->error) return b->error;
    if (!block->file_count) block->files = file;
    block->file_count++;
    return b->gathers ? 0 : blocks_turn(b);
}

int pack_blocks_flush(pack_blocks *b) { return blocks_turn(b) ? b->error : blocks_wait(b); }

int pack_blocks_write(pack_blocks *b, uint64_t offset, const void *src, uint64_t size)
{
    if (!pack_blocks_flush(b)) b->error = write_all_at(b->archive, src, size, offset);
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
