/* gate.h - whether a picture holds that was mapped and unmapped while its stream waits behind other work, when NVDEC
 * decodes another one into the same surface meanwhile. NVIDIA's documents do not say; whoever unmaps right after
 * enqueueing what reads a picture, as FFmpeg and this library do, counts on it. For gpu_check.c, and for
 * test_sessions.c, which proves on the fake driver that it notices. Include after benzina.c.
 *
 *     the gate closes: work that takes long is enqueued on the session's stream
 *     picture A is decoded, mapped, read by a copy on the stream, and unmapped: all of that is queued behind the gate
 *     picture B is decoded, again and again, until it was into A's surface; NVDEC says that it is done, and the gate
 *     is still closed
 *     the gate opens: what the copy has read must be A */
#ifndef BENZINA_TEST_GATE_H
#define BENZINA_TEST_GATE_H

#include "../gpu/check_pictures.h"

typedef struct gate {
    bzna_status (*close)(void *user, void *stream, bzna_error *err);
    void         *user;
    int           was_closed;         /* when B was done: else nothing was tried */
    int           same_surface;       /* A's and B's: likewise */
    int           holds[2];           /* A, B */
} gate;

/* Decodes the next picture, maps it and enqueues a copy to the host. */
static bzna_status gate_pass(bzi_session *session, check_pair *pair, uint32_t number, void *copy, uint64_t room,
                             bzna_error *err)
{
    bzi_flight *flight = &pair->flights[number];
    if (bzi_session_map(session, flight, err) != BZNA_OK)
        return err->status;
    if (bzi_check_surface_bytes(flight) > room)
        return BZI_FAIL(err, BZNA_E_LIMIT, "a surface of %llu bytes",
                        (unsigned long long)bzi_check_surface_bytes(flight));
    return bzi_device_download(session->device, copy, flight->address, bzi_check_surface_bytes(flight), session->stream,
                               err);
}

static bzna_status gate_submit(bzi_session *session, check_pair *pair, uint32_t number, bzna_error *err)
{
    if (bzi_session_submit(session, &pair->coded[number], NULL, err) == BZNA_OK)
        return BZNA_OK;
    return err->status < 0 ? err->status : BZNA_E_DEVICE;
}

/* In the CUDA context. */
static bzna_status gate_try(gate *g, bzi_device *device, uint32_t codec, bzna_error *err)
{
    enum { ROOM = 1 << 20 };
    bzi_session session;
    check_pair pair = { .want = { codec, 1, 8, 0, 0 } };
    void *event = NULL, *pinned = NULL;
    cuvidDecodeStatus decoded;
    bzna_status status = bzi_session_open(&session, device, &device->host->memory, err);
    session.waits = 1;
    g->was_closed = g->same_surface = g->holds[0] = g->holds[1] = 0;
    if (status == BZNA_OK && check_pair_use(&pair) &&
        (status = bzi_device_pin(device, 2 * ROOM, &pinned, err)) == BZNA_OK &&
        (status = bzi_device_event(device, &event, err)) == BZNA_OK &&
        (status = gate_submit(&session, &pair, 1, err)) == BZNA_OK &&   /* making the decoder takes long */
        (status = gate_pass(&session, &pair, 1, pinned, ROOM, err)) == BZNA_OK) {
        bzi_session_unmap_all(&session);
        if ((status = bzi_device_drain(device, session.stream, err)) == BZNA_OK &&
            (status = g->close(g->user, session.stream, err)) == BZNA_OK &&
            (status = bzi_device_record(device, event, session.stream, err)) == BZNA_OK &&
            (status = gate_submit(&session, &pair, 0, err)) == BZNA_OK &&
            (status = gate_pass(&session, &pair, 0, pinned, ROOM, err)) == BZNA_OK) {
            bzi_session_unmap_all(&session);
            for (uint32_t i = 0; i < BZI_LIMIT_SURFACES && status == BZNA_OK && !g->same_surface; i++) {
                status = gate_submit(&session, &pair, 1, err);
                if (status == BZNA_OK)
                    status = bzi_session_ask(&session, &session.pending[session.pending_first],
                                             BZI_NVDEC_DEADLINE_NS, &decoded, err);
                g->was_closed = device->cu.cuEventQuery(event) == CUDA_ERROR_NOT_READY;
                if (status == BZNA_OK)
                    status = gate_pass(&session, &pair, 1, (uint8_t *)pinned + ROOM, ROOM, err);
                g->same_surface = pair.flights[0].surface == pair.flights[1].surface;
                bzi_session_unmap_all(&session);
            }
        }
        bzi_device_stream_wait(device, session.stream);
        for (int i = 0; i < 2 && status == BZNA_OK; i++)
            g->holds[i] = check_sum_copy(&pair.flights[i], (uint8_t *)pinned + i * ROOM) == pair.sums[i];
    }
    bzi_device_event_free(device, event);
    bzi_device_unpin(device, pinned);
    session.pending_count = 0;
    bzi_session_close(&session);
    return status;
}
#endif
