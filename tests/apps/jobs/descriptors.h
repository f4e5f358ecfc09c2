// Descriptors that go to another process through a socket
#pragma once
#include "check.h"
#include <sys/socket.h>

static void pass(int socket, int file)
{
    char byte = 0, room[CMSG_SPACE(sizeof file)];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(header), &file, sizeof file);
    REQUIRE(sendmsg(socket, &message, 0) == 1);
}

static int take(int socket)
{
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int file;

    REQUIRE(recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message));
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    return file;
}
